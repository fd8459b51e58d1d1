"""A Slurm cluster of two workers on this machine, for the time of a `with`. Its daemons and jobs are below one process, with process ids of
their own, so nothing is left when that process is gone."""

import os
import pathlib
import pwd
import secrets
import socket
import subprocess

from http_store import free_port, wait_until

# auth/slurm needs a key only, no munged; accounting is a file of one line per task.
CONFIGURATION = """\
ClusterName=fleet
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/slurm
CredType=auth/slurm
SlurmctldPort={controller}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobcomp.txt
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MinJobAge=300
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=1 RealMemory=1000 State=UNKNOWN
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=1 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
START = "slurmctld -D -i & slurmd -D -N n0 & slurmd -D -N n1 & wait"


class SlurmCluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}

    def __enter__(self):
        for name in ("state", "spool/n0", "spool/n1", "run", "log"):
            (self.folder / name).mkdir(parents=True)
        for name in ("/run/slurm", "/run/slurmctld"):
            pathlib.Path(name).mkdir(parents=True, exist_ok=True)
        ports = {name: free_port() for name in ("controller", "first", "second")}
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, host=socket.gethostname().split(".")[0], user=pwd.getpwuid(os.geteuid()).pw_name, **ports))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        key = self.folder / "slurm.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(256))
        with open(self.folder / "log" / "daemons.txt", "w") as log:
            self.process = subprocess.Popen(["unshare", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", START], env=self.environment,
                                            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        wait_until(lambda: self.states() == ["idle", "idle"], "slurm", 60)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(10)

    def states(self):
        """Of the workers. Without a controller sinfo waits for long."""
        found = subprocess.run(["timeout", "2", "sinfo", "-h", "-N", "-o", "%T"], env=self.environment, capture_output=True, text=True, check=False)
        return found.stdout.split()

    def run_array(self, tasks, *command):
        """Submits an array, waits for it. (status, {task: node})."""
        before = len(self.finished())
        done = subprocess.run(["sbatch", "--wait", f"--array=1-{tasks}", "-o", self.folder / "task_%a.out", "-e", self.folder / "task_%a.err", *map(str, command)],
                              env=self.environment, capture_output=True, text=True, check=False)
        lines = self.finished()[before:]
        return done.returncode, {line["ArrayTaskId"]: line["NodeList"] for line in lines if "ArrayTaskId" in line}

    def finished(self):
        path = self.folder / "log" / "jobcomp.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]

    def output(self, task, ending="out"):
        return (self.folder / f"task_{task}.{ending}").read_text()
