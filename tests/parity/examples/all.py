# The programs that are named, in one process, so that PyTorch is loaded once: "== NAME", and what NAME.py prints.
import importlib, sys
import torch

torch.set_num_threads(1)     # forked ranks would wait for threads that are not there
for name in sys.argv[1:]:
    print("== " + name, flush=True)
    importlib.import_module(name).main()
    sys.stdout.flush()
