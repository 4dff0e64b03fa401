#!/usr/bin/env bash
# Builds the fuzz targets of tests/fuzz/targets.py, each with its seeds and the dictionary, as OSS-Fuzz and ClusterFuzzLite want them.
set -euo pipefail
pip3 install --require-hashes -r .ci/requirements.txt
pip3 install --no-deps .
cp .clusterfuzzlite/ibdissect.dict .
for target in reader walk summary filter rmpp cm lint scrub; do
  cp tests/fuzz/harness.py "fuzz_$target.py"
  compile_python_fuzzer "fuzz_$target.py" --collect-all ibdissect --collect-submodules tests.fuzz --paths .
  cp ibdissect.dict "$OUT/fuzz_$target.dict"
  seeds=tests/fuzz/corpus/$target
  [ -d "$seeds" ] || seeds=tests/fuzz/corpus/packets
  zip -qj "$OUT/fuzz_${target}_seed_corpus.zip" "$seeds"/*
done
