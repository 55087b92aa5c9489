# Steps in lanes, for .ci/run: the lanes run side by side, and what a step wrote is shown in one piece when it has ended.
# Whoever uses it sets `scratch`, a folder, and calls `end_lanes` when it is to end itself. What failed is in `failed`.
# shellcheck shell=bash

failed=()
lanes=()

# step NAME COMMAND…: run it, and tell its duration and a failure to whoever shows it. For use in a lane.
step() {
    local name=$1 begin=$SECONDS code written
    shift
    written=$(mktemp "$scratch/step.XXXXXX")
    printf 'begin - - %s %s\n' "$written" "$name"
    # Not in an `if`: there, bash would ignore a failure in the middle of a function.
    set +e
    (set -e; "$@") >"$written" 2>&1
    code=$?
    set -e
    printf 'end %d %d %s %s\n' "$code" $((SECONDS - begin)) "$written" "$name"
}

# side_by_side LANE…: run these functions, each a row of steps, at the same time, and show their steps.
side_by_side() {
    local lane what code seconds written name
    mkfifo "$scratch/told"
    set -m # a lane is a process group, so that all of it can be ended
    for lane in "$@"; do
        (set +m; "$lane") >"$scratch/told" </dev/null &
        lanes+=($!)
    done
    set +m
    while read -r what code seconds written name; do
        if [[ $what == begin ]]; then
            printf '... %s\n' "$name"
            continue
        fi
        printf '\n=== %s\n' "$name"
        cat "$written"
        rm "$written"
        if ((code == 0)); then
            printf '=== %s: ok, %d s\n\n' "$name" "$seconds"
        else
            printf '=== %s: FAILED (exit %d), %d s\n\n' "$name" "$code" "$seconds"
            failed+=("$name")
        fi
    done <"$scratch/told"
    for lane in "${lanes[@]}"; do
        wait "$lane" || failed+=('a lane of steps, which broke off')
    done
    lanes=()
    rm "$scratch/told"
}

# End what runs, and show what it had written.
end_lanes() {
    local lane
    for lane in ${lanes[@]+"${lanes[@]}"}; do
        kill -TERM -- "-$lane" 2>/dev/null || true
        while kill -0 -- "-$lane" 2>/dev/null; do
            sleep 0.1
        done
    done
    cat "$scratch"/step.* 2>/dev/null || true
}
