#!/bin/sh
# A training program without Python: variables, JSON lines, files and exit codes are the whole contract.
# It adds up the numbers from 1 to 200, one a step, and goes on after every interruption where a checkpoint is.
set -eu

total=200 every=20 keep=3
uri=${GPU_TRAINING_CHECKPOINT_URI:-} pod=${GPU_TRAINING_POD_UID:-no-pod-$$}
checkpoints=${uri#file://}
fingerprint=${GPU_TRAINING_FINGERPRINT:-}
result_file=${GPU_TRAINING_TERMINATION_LOG:-/dev/termination-log}
first=1 step=0 checkpoint=0 sum=0 stopping=''

say() { echo "$*" >&2; }

digest() { sha256sum "$1" | cut -d ' ' -f 1; }

# finish STATUS CODE [ERROR]: the result document is the last thing that it leaves, in the log and in its file.
finish() {
    trap - EXIT
    body='{"v":1,"status":"'$1'","pod_uid":"'$pod'","first_step":'$first',"last_step":'$step
    if [ -n "${DATA_VERSION:-}" ]; then body=$body',"data_version":"'$DATA_VERSION'"'; fi
    if [ "$checkpoint" -gt 0 ]; then body=$body',"checkpoint_step":'$checkpoint; fi
    if [ "$1" = trained ]; then body=$body',"metrics":{"sum":'$sum'}}'; else body=$body',"error":"'$3'"}'; fi
    echo "GPU_TRAINING_RESULT $body"
    if [ -e "$result_file" ] || [ -n "${GPU_TRAINING_TERMINATION_LOG:-}" ]; then printf %s "$body" > "$result_file"; fi
    exit "$2"
}

progress() {
    line='{"v":1,"step":'$step',"total":'$total',"first_step":'$first
    if [ "$checkpoint" -gt 0 ]; then line=$line',"checkpoint_step":'$checkpoint; fi
    echo "GPU_TRAINING_PROGRESS $line}"
}

# is_whole FOLDER STEP: the marker is there, and is of this work, this step and this content.
is_whole() {
    [ -f "$1/COMPLETE" ] && [ -f "$1/sum" ] && [ "$(cat "$1/COMPLETE")" = "$(marker "$1" "$2")" ]
}

marker() {
    printf '{"v":1,"step":%d,"fingerprint":"%s","files":{"sum":"sha256:%s"}}' "$2" "$fingerprint" "$(digest "$1/sum")"
}

# folders PARENT...: a line for each checkpoint's folder, its step in front, the newest first.
folders() {
    for parent in "$@"; do
        for folder in "$parent"/step-*; do
            if [ -d "$folder" ]; then echo "${folder##*/step-} $folder"; fi
        done
    done | sort -rn
}

# The newest whole checkpoint of any pod.
resume() {
    if [ -e "$checkpoints" ] && ! ls "$checkpoints" > /dev/null; then finish failed 1 "the checkpoints can not be read"; fi
    while read -r number folder; do
        [ -n "$number" ] || continue
        number=$(expr "$number" + 0) || continue
        if is_whole "$folder" "$number"; then
            step=$number checkpoint=$number first=$((number + 1)) sum=$(cat "$folder/sum")
            say "resuming after step $step from $folder"
            return
        fi
        say "WARNING checkpoint $folder is passed over: COMPLETE is absent, or the files are not as it says"
    done <<LIST
$(folders "$checkpoints"/*)
LIST
}

save() {
    own=$(printf '%s/%s/step-%08d' "$checkpoints" "$pod" "$step")
    # The marker last, and whole or not at all: whoever reads knows by it that the rest is there.
    if mkdir -p "$own" && rm -f "$own/COMPLETE" && printf %s "$sum" > "$own/sum" &&
        marker "$own" "$step" > "$own/.draft" && mv "$own/.draft" "$own/COMPLETE"; then
        checkpoint=$step
    else
        say "WARNING checkpoint of step $step was not written: the training goes on, with more to lose"
        return
    fi
    # Of its own only the last few stay; the marker goes first.
    folders "$checkpoints/$pod" | tail -n "+$((keep + 1))" | while read -r _ old; do
        rm -f "$old/COMPLETE" && rm -rf "$old"
    done
}

trap 'stopping=1' TERM
trap 'finish failed 1 "the program ended early"' EXIT
case $checkpoints in "" | /*) ;; *) finish failed 80 "$uri: only file:///path can be written here" ;; esac

if [ -n "$uri" ]; then resume; fi
progress
while [ "$step" -lt "$total" ]; do
    if sleep "${STEP_SECONDS:-0}"; then
        step=$((step + 1))
        sum=$((sum + step))
    elif [ -z "$stopping" ]; then
        finish failed 1 "step $((step + 1)) failed"
    fi
    if [ -n "$uri" ] && [ "$step" -ne "$checkpoint" ]; then
        if [ -n "$stopping" ] || [ $((step % every)) -eq 0 ] || [ "$step" -eq "$total" ]; then save; fi
    fi
    progress
    # Never 0 on SIGTERM: Kubernetes would call the Job Complete.
    if [ -n "$stopping" ]; then finish failed 85 "interrupted by SIGTERM after step $step of $total"; fi
done
finish trained 0
