#!/usr/bin/env bash
# Runs tests/remote_real.rs against two real servers from the Python registry, in a virtual environment that is deleted afterwards.
# NOT RUN where that cannot be had. Needs half a gigabyte for a while.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
work="$(mktemp -d)"
started=()
end() {
    for id in "${started[@]}"; do kill "$id" 2>/dev/null || true; done
    rm -rf "$work"
}
trap end EXIT

if ! python3 -m venv "$work/venv" ||
    ! "$work/venv/bin/pip" install --quiet --only-binary :all: numpy gguf==0.19.0 xllamacpp==2026.10.11549 'litellm[proxy]==1.108.7'; then
    echo "real servers: NOT RUN, their packages cannot be installed"
    exit 0
fi

# Waits until a server answers.
wait_for() {
    python3 - "$1" <<'PYTHON'
import sys, time, urllib.request
for _ in range(120):
    try:
        urllib.request.urlopen(sys.argv[1], timeout=2)
        sys.exit(0)
    except OSError:
        time.sleep(1)
sys.exit(f"{sys.argv[1]} does not answer")
PYTHON
}

run() {
    (cd "$here/../.." && cargo test --quiet --test remote_real -- --nocapture)
}

cat >"$work/litellm.yaml" <<'YAML'
model_list:
  - model_name: k3-mock
    litellm_params:
      model: openai/k3
      api_key: none
      mock_response: "Hello from a proxy, 漢字 and all."
general_settings:
  master_key: sk-real-1234
YAML
HOME="$work" "$work/venv/bin/litellm" --config "$work/litellm.yaml" --host 127.0.0.1 --port 4011 >"$work/litellm.log" 2>&1 &
started+=($!)
wait_for http://127.0.0.1:4011/health/liveliness
K3_REAL_SERVER=http://127.0.0.1:4011 K3_REAL_MODEL=k3-mock K3_API_KEY=sk-real-1234 run

"$work/venv/bin/python" "$here/make_tiny.py" "$work/tiny.gguf"
"$work/venv/bin/python" "$here/serve_tiny.py" "$work/tiny.gguf" 4012 >"$work/llama.log" 2>&1 &
started+=($!)
wait_for http://127.0.0.1:4012/v1/models
K3_REAL_SERVER=http://127.0.0.1:4012 run
