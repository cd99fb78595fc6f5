"""The command line: reads argv, environment and files, builds the objects, owns the loop.

`main.py` registers the commands. Each is a plain function in the module of its name (`serve.py` has
`up`, `serve` and `node`, `nodes.py` also `models`); what it does beyond reading its arguments is
beside it: `demo_run.py`, `measuring.py` (bench), `examination.py` (doctor). `wiring.py` builds a
proxy and a node for all of them. Settings come through `environment.py` -> `config.py` (layers) ->
`knobs.py` (one setting); a proxy in another process is asked through `running_proxy.py`.
"""
