"""Serves a GGUF file with llama.cpp's own server on this computer: serve_tiny.py FILE PORT. Ends when it is killed."""

import sys
import threading

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.port = int(sys.argv[2])
parameters.n_ctx = 2048
parameters.endpoint_metrics = True
parameters.use_jinja = True
parameters.warmup = False
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
threading.Event().wait()
