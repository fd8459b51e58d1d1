#!/bin/sh
#SBATCH --cpus-per-task=1
# One share of a list of models in each task of a Slurm array:
#
#   sbatch --array=1-20 slurm-array.sh LIST OUT [OPTIONS OF ctxgen compile...]
#
# OUT is on a file system that all nodes share. What is there and current is left, so the same line again tries what failed.
# --isa belongs to the options unless all nodes are of one kind: a context model fits the instruction set that it was made on.
set -eu
list=$1 out=$2
shift 2
exec "${CTXGEN:-ctxgen}" compile --list "$list" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" -o "$out/" \
  -j "${SLURM_CPUS_PER_TASK:-1}" --json "$@"
