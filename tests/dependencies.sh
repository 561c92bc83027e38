# SPDX-License-Identifier: BSD-3-Clause
# The packages that quickstart and runtests need, and the build that both
# start from; sourced by them at the top of the source tree.

# Set the array packages to what 'build' and, if asked for, 'test' need here.
# Fedora's are named by file where the package has moved between releases.
dependencies_list() {
  local what
  packages=()
  for what; do
    case $distribution:$what in
      debian:build)
        packages+=(gcc libc6-dev make autoconf automake libtool pkgconf perl
          nbdkit nbdkit-plugin-dev libnbd-bin libnbd-dev libjansson-dev
          libzstd-dev libxxhash-dev qemu-utils qemu-system-common
          openssh-client python3 jq) ;;
      debian:test)
        packages+=(qemu-system-x86 openssh-server binutils valgrind
          e2fsprogs zstd util-linux xxd) ;;
      fedora:build)
        packages+=(gcc glibc-devel make autoconf automake libtool
          pkgconf-pkg-config perl-podlators nbdkit nbdkit-devel libnbd
          libnbd-devel jansson-devel libzstd-devel xxhash-devel qemu-img
          /usr/bin/qemu-nbd /usr/bin/qemu-storage-daemon openssh-clients
          python3 jq diffutils) ;;
      fedora:test)
        packages+=(/usr/bin/qemu-system-x86_64 openssh-server binutils
          valgrind e2fsprogs zstd libasan libubsan util-linux
          /usr/bin/xxd) ;;
    esac
  done
}

# Those of the packages that are not installed, into the array missing.
dependencies_missing() {
  local p
  missing=()
  for p in "${packages[@]}"; do
    case $distribution in
      debian)
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) = \
           installed ]] || missing+=("$p") ;;
      fedora)
        rpm -q --whatprovides "$p" >/dev/null 2>&1 || missing+=("$p") ;;
    esac
  done
}

# install_dependencies build|test...: quick if all is there.  A user who is
# not root is told what to install; configure says what it cannot do without.
install_dependencies() {
  local command log like
  like=$(. /etc/os-release 2>/dev/null && echo " ${ID:-} ${ID_LIKE:-} ")
  case $like in
    *" debian "*) distribution=debian command='apt-get install' ;;
    *" fedora "*) distribution=fedora command='dnf install' ;;
    *)
      echo "Not Debian or Fedora: going on with what is installed here."
      return ;;
  esac
  dependencies_list "$@"
  dependencies_missing
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    echo "Not root: going on without installing; this may be needed first:"
    echo "  $command ${missing[*]}"
    return
  fi
  echo "Installing ${missing[*]}"
  log=$(mktemp)
  if ! dependencies_install >"$log" 2>&1 </dev/null; then
    tail -20 "$log" >&2
    rm -f "$log"
    echo "$command: failed, see above" >&2
    exit 1
  fi
  rm -f "$log"
}

dependencies_install() {
  case $distribution in
    debian)
      export DEBIAN_FRONTEND=noninteractive
      apt-get -o DPkg::Lock::Timeout=300 update &&
        apt-get -o DPkg::Lock::Timeout=300 install -y \
          --no-install-recommends "${missing[@]}" ;;
    fedora)
      dnf install -y --setopt=install_weak_deps=False "${missing[@]}" ;;
  esac
}

# build_tree DIR [CONFIGURE-OPTIONS...]: configure there, if that has not
# been done for the nbdkit that is installed now, and make.  What the tools
# say is shown only if they fail.
build_tree() {
  local dir=$1 log=$1/build.log
  shift
  mkdir -p "$dir"
  if ! build_tree_quietly "$dir" "$@" >"$log" 2>&1 </dev/null; then
    tail -40 "$log" >&2
    echo "$dir: the build failed; all of it is in $log" >&2
    return 1
  fi
}

build_tree_quietly() {
  local dir=$1 version
  shift
  [[ -e configure ]] || autoreconf -i || return
  version=$(nbdkit --dump-config | sed -n 's/^version=//p')
  if ! grep -Fqs "S[\"NBDKIT_VERSION\"]=\"$version\"" "$dir/config.status"
  then
    (cd "$dir" && ../configure "$@") || return
    # Objects of another nbdkit's headers are of no use.
    make -C "$dir" clean || return
  fi
  make -C "$dir" -j "$(nproc)"
}
