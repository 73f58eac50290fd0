#!/usr/bin/env bash
# Drives the gateway with the openai Python client: chat, streaming chat with usage, completions, models.
# Starts simulated engines and the gateway on free loopback ports and ends both. Needs python3 with venv or pip.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${1:?usage: tests/openai_client.sh PATH-OF-WARMGATE}
venv=${CARGO_TARGET_DIR:-target}/openai-client
if ! "$venv/bin/python" -c 'import openai' 2>/dev/null; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'openai>=1.40,<3'
fi
exec "$venv/bin/python" tests/openai_client.py "$binary"
