#!/bin/sh
# Run a command with a RabbitMQ of another Debian release, which is installed in a folder of its own.
#
#   scripts/broker-chroot.sh RELEASE FOLDER COMMAND [ARGUMENT...]
#
# The script makes the folder once with debootstrap and keeps it. The command gets LEVERET_RABBITMQ_CHROOT=FOLDER.
# chroot and mount need root. Several runs may use a folder at once; the last one unmounts /proc.
set -eu

release=$1
folder=$2
shift 2

if [ "$(id -u)" != 0 ]; then
    echo "broker-chroot: needs root (chroot and mount); run it as root, with sudo or in a container" >&2
    exit 1
fi
here=$(cd "$(dirname "$0")" && pwd)
command -v debootstrap >/dev/null || sh "$here/apt-install.sh" debootstrap

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

mounted() { grep -qs " $folder/proc " /proc/mounts; }
release_proc() { if mounted; then umount "$folder/proc"; fi; }

leave() {
    exec 9>&- 8>"$folder.lock"
    if flock -n 8; then release_proc; fi
}

# A run that uses the folder holds its lock shared; a run that makes it holds the lock alone.
exec 9>"$folder.lock"
flock -s 9
[ -e "$folder/.complete" ] || flock 9

# The last step writes the file .complete, so an interrupted folder is made again.
if [ ! -e "$folder/.complete" ]; then
    release_proc
    rm -rf --one-file-system "$folder"
    mkdir -p "$folder"
    echo "Making $folder: Debian $release with rabbitmq-server (a few minutes)"
    if ! debootstrap --variant=minbase --include=rabbitmq-server "$release" "$folder" >"$folder.log" 2>&1; then
        tail -20 "$folder.log" "$folder/debootstrap/debootstrap.log" >&2 || true
        exit 1
    fi
    rm -rf "$folder/var/cache/apt/archives" "$folder/var/lib/apt/lists"
    touch "$folder/.complete"
fi

trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
cp /etc/hosts "$folder/etc/hosts"
mounted || mount -t proc proc "$folder/proc"
flock -s 9
LEVERET_RABBITMQ_CHROOT=$folder "$@"
