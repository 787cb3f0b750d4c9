"""`python -m peerclust`: the command line."""

from peerclust.cli import main

if __name__ == "__main__":
    main()
