#!/bin/sh
# Makes the secrets of a compose installation, once:  deploy/compose/secrets.sh [FOLDER [NODE...]]   (else secrets/ beside it)
# Random, one file each. A file that is there stays as it is. FOLDER/nodes/ has one for each node with a cache of its own:
# cache-1 (the profile `cache`), and the nodes named here; `prepare` lets in whoever has a file there.
# s3_key and s3_secret (object-store.yaml) come from your object store, smtp_password (notify.yaml) from your mail server,
# oidc_client_secret (sign-in.yaml) from your identity provider:
# put them in, run this again for their rights.
set -eu
folder=${1:-$(cd "$(dirname "$0")" && pwd)/secrets}
[ $# -eq 0 ] || shift
umask 077
mkdir -p "$folder/nodes"

make() { # FILE PREFIX
  if [ -s "$folder/$1" ]; then
    echo "kept  $folder/$1"
  else
    # Letters and digits: they go into URLs and a configuration file. 64 of them hold over 370 bits.
    { printf %s "$2"; LC_ALL=C tr -dc 'A-Za-z0-9' </dev/urandom | head -c 64; } >"$folder/.making.$$"
    mv "$folder/.making.$$" "$folder/$1"
    echo "made  $folder/$1"
  fi
}

for name in secret_key database_password broker_password; do make "$name" ""; done
for name in cache-1 "$@"; do make "nodes/$name" dlhn_; done
# The containers' user (10001) must read them, and nobody else.
chmod -R u=rwX,go= "$folder" 2>/dev/null || true # of what an older release made
if [ "$(id -u)" -eq 0 ]; then
  chown -R 10001:10001 "$folder"
elif setfacl -R -m u:10001:rX "$folder" 2>/dev/null; then
  :
else
  chmod 0711 "$folder"
  chmod 0755 "$folder/nodes"
  chmod 0644 "$folder"/*_* "$folder"/nodes/*
  echo "$0: everybody on this machine can read $folder now: run this as root, or install acl and run it again" >&2
fi
