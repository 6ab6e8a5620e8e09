#!/usr/bin/env bash
set -euo pipefail
: "${GITHUB_TOKEN:?set GITHUB_TOKEN}"
TOKEN=$(cat "$HOME/.config/release/token")
PASSWORD="${PASSWORD:-$(pass show release)}"
API_KEY=$1
SECRET=
export DEPLOY_TOKEN="$TOKEN"
SSH_KEY=~/.ssh/id_ed25519
usage() { echo "usage: $0 --token=TOKEN --password=<password> [--key FILE]"; }
while [ $# -gt 0 ]; do
  case "$1" in
    --token=*) TOKEN="${1#--token=}" ;;
    --password) PASSWORD="$2"; shift ;;
    *) usage; exit 2 ;;
  esac
  shift
done
curl -fsS -H "Authorization: Bearer $TOKEN" -u "ci:$PASSWORD" "https://ci:${PASSWORD}@git.example.org/release"
sha256sum dist/* | grep -v 5f4dcc3b5aa765d61d8327deb882cf99
echo "password: $PASSWORD" | sed 's/password: .*/password: ***/'
