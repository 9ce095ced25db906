#!/bin/sh
# Makes the secrets of a compose installation, once:  deploy/compose/secrets.sh [FOLDER]   (else secrets/ beside it)
# Random, one file each. A file that is there stays as it is.
set -eu
folder=${1:-$(cd "$(dirname "$0")" && pwd)/secrets}
umask 077
mkdir -p "$folder"
for name in secret_key database_password broker_password; do
  if [ -s "$folder/$name" ]; then
    echo "kept  $folder/$name"
  else
    # Letters and digits: they go into URLs and a configuration file. 64 of them hold over 370 bits.
    LC_ALL=C tr -dc 'A-Za-z0-9' </dev/urandom | head -c 64 >"$folder/.$name.$$"
    mv "$folder/.$name.$$" "$folder/$name"
    echo "made  $folder/$name"
  fi
done
# The containers' user (10001) must read them; where this is not root, make the files readable by that group yourself.
if [ "$(id -u)" -eq 0 ]; then chown -R 10001:10001 "$folder"; else chmod 0644 "$folder"/*; chmod 0711 "$folder"; fi
