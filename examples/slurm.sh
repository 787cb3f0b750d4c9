#!/bin/bash
# A clustering job for Slurm: one rank a core, on as many nodes as that takes.
#
#   sbatch slurm.sh
#
# The same command begins the job and takes it up again: after a node was lost, after preemption
# (Slurm queues it anew by itself), and after the time limit (submit it again).

#SBATCH --job-name=peerclust
# The number of ranks may not change from one attempt to the next; the nodes may.
#SBATCH --ntasks=64
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=12:00:00
#SBATCH --requeue
# An attempt writes on where the last one ended.
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log

set -euo pipefail

# On a file system that every node sees: a rank reads its users' files and writes its checkpoint.
DATA=$HOME/rows
RUN=$HOME/runs/$SLURM_JOB_NAME
mkdir -p "$RUN"

# An environment with peerclust[mpi,tables], made with the same MPI library that is loaded here.
module load openmpi
. "$HOME/peerclust/bin/activate"

# All cores have a rank already: threads beside it would only get in the way.
export PEERCLUST_THREADS=1 OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1
# Loops are compiled once, not by every rank of every job.
export NUMBA_CACHE_DIR=$HOME/.cache/peerclust

# An attempt that was queued again after the last one had ended has nothing to do.
if [ -e "$RUN/result/certificate.json" ]; then
    echo "$RUN/result is there."
    exit
fi

# mpiexec of Open MPI, MPICH and Intel MPI knows the nodes of a Slurm job. Where ranks must be started
# by Slurm itself (`srun --mpi=list` tells how it can):
#   START=(srun --mpi=pmix --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1)
START=(mpiexec -n "$SLURM_NTASKS")

"${START[@]}" peerclust fit --runtime mpi "$DATA"/*.parquet --clusters 10 \
    --checkpoint "$RUN/checkpoint" --checkpoint-every 200 --resume --out "$RUN/result"
