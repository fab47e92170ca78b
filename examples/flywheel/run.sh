#!/usr/bin/env bash
# A model of 0.15 M parameters learns a shell task from its own attempts, each a real trial in a real local sandbox:
# demonstrations -> imitation -> evaluation -> (attempts -> training -> serving) again and again -> evaluation.
# ./run.sh [FOLDER FOR JOBS] [quick|full] [MORE OPTIONS OF harness loop, e.g. --set train.algo=grpo]
# quick closes the circle in about two minutes; full is the demonstration. SEED=n repeats it otherwise.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(realpath -m "${1:-jobs}/flywheel-$(date +%Y%m%d-%H%M%S)") size=${2:-quick} seed=${SEED:-0}
shift $(($# < 2 ? $# : 2))
python -c 'import torch, transformers, safetensors, pyarrow, uvicorn, httptools, openai, scipy, jinja2' 2>/dev/null ||
  { echo "this example needs: pip install 'harness-rl[train,proxy,llm,evals,report]'"; exit 77; }
case $size in
  quick) demonstrations=256 imitation=320 held_out=40 loop=(--steps 5) ;;
  full) demonstrations=512 imitation=400 held_out=100 loop=() ;;
  *) echo "quick or full, not $size" >&2; exit 2 ;;
esac
# Small programs by the thousand: private file systems in memory, and no threads that wait for each other.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
export OMP_NUM_THREADS=1 PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH}
mkdir -p "$folder"
cd "$folder"

tasks() { python "$here/family.py" "$1" --tasks "$2" --seed $((3 * seed + $3)); }
tasks demonstrations "$demonstrations" 1
tasks train 512 2
tasks held-out "$held_out" 3

echo "== $demonstrations demonstrations, and a fresh model that imitates them"
harness run demonstrations --agent demonstrator:demonstrator --jobs-dir jobs --name demonstrations --seed "$seed" \
  --n-concurrent 8 | tail -n 3
python -c "import pathlib, sys, trainer.policy.tiny as t; t.save_tiny(pathlib.Path('fresh'), seed=int(sys.argv[1]))" "$seed"
harness export jobs/demonstrations --to-rl --retokenize fresh -o data >/dev/null
harness train data --model fresh --algo sft --steps "$imitation" --seed "$seed" -o warm --set objective.positive_only=false \
  --set groups_per_step=32 --set optimizer.lr=3e-3 --set checkpoint_every=1000 | tail -n 3

echo "== the loop: attempts, training, serving, again"
harness loop "$here/flywheel.toml" -o loop --seed "$seed" --set model=warm/model --set tasks.train=train \
  --set tasks.held_out=held-out "${loop[@]}" "$@"

echo "== held-out tasks, before and after"
evaluations=(loop/jobs/eval-*)
before=${evaluations[0]} after=${evaluations[-1]}
[ "$before" != "$after" ] || { echo "the loop made no new version" >&2; exit 1; }
status=0
verdict=$(harness gate "$after" --baseline "$before") || status=$?
head -n 5 <<<"$verdict"
harness train report loop
echo "everything: $folder"
exit $status
