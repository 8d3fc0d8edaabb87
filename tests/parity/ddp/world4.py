import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import ddp_matrix

if __name__ == "__main__":
    ddp_matrix.main(4)
