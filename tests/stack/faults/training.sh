#!/bin/sh
# A training that takes as long as it is told, and ends as it is told.
#
#   training.sh FOLDER OUTCOME SECONDS
#
# FOLDER is the cell's, shared by all pods of one training: the pods count themselves there, none goes on before the
# file `go` is there, and the file `due` asks for the disruption.
folder=$1 outcome=$2 seconds=$3
trap 'exit 143' TERM
attempt=1
while ! mkdir "$folder/attempt-$attempt" 2>/dev/null; do attempt=$((attempt + 1)); done
echo "attempt $attempt in $folder"
while [ ! -e "$folder/go" ]; do sleep 0.1; done
sleep "$seconds" &
wait $!
case "$outcome-$attempt" in
failure-1) exit 1 ;;
disruption-1)
    touch "$folder/due"
    sleep 600 &
    wait $!
    ;;
esac
printf '{"v":1,"status":"trained","metrics":{"mae":1.5},"model_uri":"runs:/%s/model","device":"cpu"}' \
    "$MLFLOW_RUN_ID" >/dev/termination-log
