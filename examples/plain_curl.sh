#!/bin/sh
# One streamed call through pair with nothing but curl; -D - shows which node answered and why.
#
#     sh examples/plain_curl.sh [BASE_URL] [MODEL]
set -eu
base_url=${1:-http://127.0.0.1:7247/v1}
model=${2:-}
if [ -z "$model" ]; then
    # The first model that the proxy lists.
    model=$(curl -fsS "$base_url/models" | sed -n 's/.*"data": *\[{"id": *"\([^"]*\)".*/\1/p')
    if [ -z "$model" ]; then
        echo "no machine of the house has a model yet; pair nodes shows who is there" >&2
        exit 1
    fi
fi
# --fail-with-body: an error ends with a code, and what pair says of it is shown.
exec curl --fail-with-body -sSN -D - "$base_url/chat/completions" \
    -H 'Content-Type: application/json' \
    -H 'x-pair-job: plain-curl' \
    -d "{\"model\":\"$model\",\"stream\":true,\"max_tokens\":16,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}"
