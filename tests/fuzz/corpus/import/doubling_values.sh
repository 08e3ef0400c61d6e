#!/bin/sh
A="--num-layers 8"
A="$A$A"
A=("${A[@]}" "${A[@]}")
if [ "$X" = 1 ]; then B=--bf16; else B=--fp16; fi
N=$((2 * (3 + 4)))
torchrun --nproc_per_node ${G:-8} pretrain.py ${A[@]} --hidden-size 64 --num-attention-heads 4 --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size $N --seq-length 128 --vocab-size 1000 $B
