# The environment of ./dev, which sources this file: which packages it holds, how its root file system is made, how it is entered.
# Uses project, suite and packages of ./dev; `enter CMD...` is what it is for.
# shellcheck shell=bash

: "${project:?}" "${suite=}" "${packages=}"
recipe=1 # part of the cache key: raise it when make_root makes something else from the same list

# ---- messages -----------------------------------------------------------------------------------------------------------

say() { printf 'dev: %s\n' "$*" >&2; }
die() {
  printf 'dev: error: %s\n' "$*" >&2
  exit 1
}
no_means() {
  die "$1
Another way is a container: the Dockerfile beside this script holds the same environment.
  docker build -t ctxgen-dev . && docker run --rm -it -v \"\$PWD:\$PWD\" -w \"\$PWD\" ctxgen-dev ./dev help"
}

# ---- packages -----------------------------------------------------------------------------------------------------------

# packages.txt and, with --packages NAME, packages-NAME.txt too, without comments, one name per line; "name?" may be missing in a suite.
listed_packages() {
  sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$project/packages.txt" ${packages:+"$project/packages-$packages.txt"} | awk '!seen[$0]++'
}

check_packages() {
  [[ -z $packages || -e $project/packages-$packages.txt ]] && return
  local lists
  lists=$(cd "$project" && shopt -s nullglob && printf '%s ' packages-*.txt)
  die "no list packages-$packages.txt; there are: ${lists% }"
}

packages_hash() { { echo "$recipe" && listed_packages; } | sha256sum | cut -c1-12; }

# True inside the environment, and on a host of the right suite that has every package.
host_is_environment() {
  if [[ ${CTXGEN_IN_ENV:-} == 1 ]]; then
    local here=${CTXGEN_ENV_SUITE:-$default_suite}
    [[ $suite == "$here" ]] || die "this is the inside of the $here environment; call ./dev --suite $suite from outside"
    [[ $packages == "${CTXGEN_ENV_PACKAGES:-}" ]] || die "this environment lacks packages-$packages.txt; call ./dev --packages $packages from outside"
    return 0
  fi
  [[ -r /etc/os-release ]] && command -v dpkg-query >/dev/null || return 1
  [[ $(. /etc/os-release && echo "${VERSION_CODENAME:-}") == "$suite" ]] || return 1
  local names installed
  mapfile -t names < <(listed_packages | sed '/?$/d')
  installed=$(dpkg-query -W -f '${db:Status-Status}\n' "${names[@]}" 2>/dev/null | grep -cx installed) || return 1
  ((installed >= ${#names[@]}))
}

# ---- making the root file system ----------------------------------------------------------------------------------------

apt_update() {
  say "apt-get update"
  apt-get update -q </dev/null >>"$log" 2>&1 || say "apt-get update failed (see $log); going on with the lists that are there"
}

apt_install() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" </dev/null >>"$log" 2>&1
}

# Has the host's own apt install what makes the root file system.
install_means() {
  local needed=(mmdebstrap debian-archive-keyring ca-certificates) missing=() name
  ((EUID == 0)) || needed+=(uidmap)
  for name in "${needed[@]}"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || no_means "this host lacks ${missing[*]}: have an administrator apt-get install that, or run as root."
  say "installing on this host: ${missing[*]}"
  apt_install "${missing[@]}" || { apt_update && apt_install "${missing[@]}"; } ||
    no_means "apt-get install ${missing[*]} failed; see $log."
}

# Prints the base address of the main Debian archive among the host's apt sources. apt itself reads them, in one-line and
# deb822 form, once their lists are there; security, updates, backports and foreign archives are passed over.
host_mirror() {
  local uri release component label guess=""
  while IFS='|' read -r uri release component label; do
    [[ $component == main && $uri =~ ^(https?|mirror|tor.*): ]] || continue
    [[ $release =~ -(security|updates|backports|proposed)|/ ]] && continue
    [[ $label == Debian ]] && echo "$uri" && return 0
    [[ $uri =~ /debian/?$ ]] && guess=${guess:-$uri} # a mirror with a label of its own
  done < <(apt-get indextargets --format '$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(LABEL)' 'Created-By: Packages' 2>/dev/null)
  [[ -n $guess ]] && echo "$guess"
}

# Copies mmdebstrap's output to the log and its stages to the terminal.
show_stages() {
  tee -a "$log" | sed -un -E 's/^I: ((running apt-get update|downloading|extracting|installing|cleaning).*[^.])\.*$/dev:   \1/p' >&2
}

# A subshell: it holds the lock, and its traps clean up. Children inherit the lock, so that an orphan of a killed run is waited for.
make_root() (
  umask 022
  mkdir -p "$roots"
  log=$roots/$suite-$(packages_hash).log
  exec 9>"$roots/lock"
  if ! flock -n 9; then
    say "another ./dev is making a root file system; waiting for it"
    flock 9
  fi
  [[ ! -e $root/.complete ]] || exit 0
  rm -rf --one-file-system "$roots"/*.tmp.* # left by a killed run: nobody else is making one while we hold the lock
  : >"$log"

  [[ -e /etc/debian_version ]] && command -v apt-get >/dev/null || no_means "this host is not Debian."
  install_means
  local mirror
  mirror=$(host_mirror) || { apt_update && mirror=$(host_mirror); } ||
    no_means "this host's apt sources name no Debian archive (component main over http or https)."

  say "making the $suite root file system, once for this packages.txt${packages:+ and packages-$packages.txt}"
  local temporary=$root.tmp.$$ options line started=$SECONDS
  trap 'rm -rf --one-file-system "$temporary"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  # A name that the suite may lack goes as a pattern, which may match nothing.
  options=(--variant=apt --aptopt='Acquire::Check-Valid-Until "false"'
    "--include=$(listed_packages | sed 's/^\(.*\)?$/?exact-name(\1)/' | paste -sd,)")
  while IFS= read -r line; do options+=("--aptopt=$line"); done < <(
    apt-config dump | grep -E '^Acquire::(http|https)::((.*::)?Proxy|CaInfo|CaPath) ' || true)
  if ((EUID == 0)); then
    unshare --mount mmdebstrap --mode=root "${options[@]}" "$suite" "$temporary" "$mirror" </dev/null 2>&1 | show_stages
  else # as a tar file, so that every file ends up owned by this user
    mkdir "$temporary"
    mmdebstrap --mode=unshare --format=tar "${options[@]}" "$suite" - "$mirror" </dev/null 2> >(show_stages) |
      tar -x -C "$temporary" --no-same-owner --exclude='./dev/*'
  fi || {
    tail -n 15 "$log" >&2
    ! grep -q NO_PUBKEY "$log" || say "this host's debian-archive-keyring does not know the keys of $suite: upgrade that package"
    no_means "making the root file system failed; the whole log is $log."
  }
  : >"$temporary/.complete"
  mv -T "$temporary" "$root"
  find "$roots" -mindepth 2 -maxdepth 2 -name .complete -mtime +30 -printf '%h\0' | xargs -0r rm -rf --one-file-system # unused ones
  say "made it in $((SECONDS - started)) s: $root"
)

# ---- entering it --------------------------------------------------------------------------------------------------------

# Becomes "$@" inside the environment.
enter() {
  : "${HOME:=$(getent passwd "$EUID" | cut -d: -f6)}"
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/ctxgen
  export HOME CCACHE_DIR=${CCACHE_DIR:-$cache/ccache}
  if [[ -z ${CTXGEN_MODELS:-} && -d $project/../shared/models ]]; then CTXGEN_MODELS=$project/../shared/models; fi
  local name
  for name in CTXGEN_MODELS CTXGEN_BUILD_DIR; do
    [[ -z ${!name:-} ]] || export "$name=$(realpath -ms "${!name}")"
  done
  if host_is_environment; then
    export CTXGEN_IN_ENV=1 CTXGEN_ENV_SUITE=$suite CTXGEN_ENV_PACKAGES=$packages
    exec "$@"
  fi

  [[ $(uname -sm) == "Linux x86_64" ]] || die "ctxgen is developed and built on Linux x86-64 only; this is $(uname -sm)."
  local namespace=(unshare --mount --propagation private)
  ((EUID == 0)) || namespace+=(--user --map-root-user)
  "${namespace[@]}" true 2>/dev/null ||
    no_means "this user may not make a mount namespace (a container without that right, or not root and no user namespaces)."
  mkdir -p "$cache" "$CCACHE_DIR"
  roots=$(cd -P "$cache" && pwd)/roots
  root=$roots/$suite-$(packages_hash)
  [[ -e $root/.complete ]] || make_root
  touch -c "$root/.complete" # in use: see the end of make_root
  [[ -z ${CTXGEN_BUILD_DIR:-} ]] || mkdir -p "$CTXGEN_BUILD_DIR"

  local binds=("$HOME" /tmp /var/tmp "${TMPDIR:-}" "$PWD" "$(pwd -P)" "$project" "$cache" "$CCACHE_DIR"
    "${CTXGEN_BUILD_DIR:-}" "${CTXGEN_MODELS:+ro:$CTXGEN_MODELS}") further=()
  IFS=: read -ra further <<<"${DEV_BIND:-}"
  binds+=("${further[@]}")
  export CTXGEN_IN_ENV=1 CTXGEN_ENV_SUITE=$suite CTXGEN_ENV_PACKAGES=$packages LC_ALL=C.UTF-8
  unset LD_PRELOAD LD_LIBRARY_PATH PYTHONHOME PYTHONPATH
  exec "${namespace[@]}" /bin/bash -c "$inside" dev-enter "$root" "$PWD" "${#binds[@]}" "${binds[@]}" "$@"
}

# Runs in the new mount namespace with the host's tools, arranges the mounts and gives way to the command.
inside='
set -eu
root=$1 folder=$2 count=$3
shift 3

bind() { # HOW PATH: PATH of the host becomes PATH inside
  case $(readlink -m "$root$2") in "$root"/*) ;; *) return 0 ;; esac # a link of the root file system leads elsewhere
  if [ -d "$2" ]; then
    mkdir -p "$root$2"
  elif [ ! -e "$root$2" ]; then
    mkdir -p "$(dirname "$root$2")"
    : >"$root$2"
  fi
  mount "$1" "$2" "$root$2"
}

mount --bind "$root" "$root"
mount --make-unbindable "$root" # $HOME is bound below and may hold it
for path in /dev /proc /sys; do bind --rbind "$path"; done
mount -t tmpfs -o mode=755 tmpfs "$root/run"
while [ "$count" -gt 0 ]; do
  path=${1#ro:}
  case $path in
    / | /usr | /usr/[!/]* | /etc | /var | /var/lib | /bin | /sbin | /lib | /lib32 | /lib64 | /dev | /proc | /sys | /run)
      case $path in /usr/local/?* | /usr/src/?*) bind --rbind "$path" ;; esac ;; # the other folders are the system itself
    /*)
      if [ -d "$path" ]; then
        bind --rbind "$path"
        [ "$path" = "$1" ] || mount -o remount,bind,ro "$root$path" 2>/dev/null || :
      fi ;;
  esac
  shift
  count=$((count - 1))
done
for path in /etc/resolv.conf /etc/hosts /etc/npmrc "${NODE_EXTRA_CA_CERTS:-}" "${SSL_CERT_FILE:-}"; do
  if [ -n "$path" ] && [ -f "$path" ]; then bind --bind "$path"; fi
done
mount -o remount,bind,ro "$root" 2>/dev/null || :
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec chroot "$root" env -C "$folder" "$@"
'
