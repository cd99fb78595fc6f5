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
fi
exec curl -fsSN -D - "$base_url/chat/completions" \
    -H 'Content-Type: application/json' \
    -H 'x-pair-job: plain-curl' \
    -d "{\"model\":\"$model\",\"stream\":true,\"max_tokens\":16,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}"
