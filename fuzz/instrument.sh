#!/bin/sh
# Compiles the crates that fuzzing is about with counters of coverage, and everything else as it
# is. Cargo is told of it by RUSTC_WORKSPACE_WRAPPER, so that what comes from outside is shared with
# other builds. Needs no nightly: `-C passes` and `-C llvm-args` are stable.
rustc=$1
shift
case " $* " in
*" --crate-name pipeann_raw "* | *" --crate-name pipeann_engine "* | *" --crate-name pipeann_db "* | *" --crate-name pipeann_cluster "* | *" --crate-name pipeann_store "* | *" --crate-name pipeann_fuzz "* | *" --crate-name fuzz "*)
    exec "$rustc" "$@" --cfg fuzzing -Cpasses=sancov-module \
        -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
*) exec "$rustc" "$@" ;;
esac
