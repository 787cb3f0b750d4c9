#!/bin/bash
# A clustering job for Slurm: one rank per core, on as many nodes as needed.
#
#   sbatch slurm.sh
#
# The job resumes from its checkpoint: after the loss of a node or preemption (Slurm requeues it), and
# after the time limit (submit it again).

#SBATCH --job-name=peerclust
# The number of ranks must not change between attempts; the nodes may.
#SBATCH --ntasks=64
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=12:00:00
#SBATCH --requeue
# Every attempt appends to the same log.
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

# Every core has a rank already: more threads would only compete with it.
export PEERCLUST_THREADS=1 OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1
# Loops are compiled once, not by every rank of every job.
export NUMBA_CACHE_DIR=$HOME/.cache/peerclust

# An attempt that was requeued after the end of the run has nothing to do.
if [ -e "$RUN/result/certificate.json" ]; then
    echo "$RUN/result exists already."
    exit
fi

peerclust warm-up

# mpiexec of Open MPI, MPICH and Intel MPI knows the nodes of a Slurm job. Where ranks must be started
# by Slurm itself (`srun --mpi=list` lists its options):
#   START=(srun --mpi=pmix --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1)
START=(mpiexec -n "$SLURM_NTASKS")

"${START[@]}" peerclust fit --runtime mpi "$DATA"/*.parquet --clusters 10 \
    --checkpoint "$RUN/checkpoint" --checkpoint-every 200 --resume --out "$RUN/result"
