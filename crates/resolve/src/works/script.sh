set -uf
end=$((SECONDS + WAITTIME))
listed() { local e; for e in $2; do [[ $e == "$1" ]] && return 0; done; return 1; }
ask() { # oc's answer is left in OUT; a denial ends the Job at once
  if OUT=$(oc "$@" 2>&1); then
    while [[ $OUT == Warning:*$'\n'* ]]; do OUT=${OUT#*$'\n'}; done
    [[ $OUT != Warning:* ]] || OUT=''
    return 0
  fi
  if [[ $OUT == *[Ff]orbidden* ]]; then echo "denied: $OUT"; exit 1; fi
  echo "oc failed, will retry: $OUT"; return 1
}
echo "Approving operator install plans for up to ${WAITTIME}s"
while :; do
  open=0 patched=0
  if ask get subscriptions.operators.coreos.com -A -o 'jsonpath={range .items[*]}{.metadata.name}{","}{.metadata.namespace}{"\n"}{end}'; then
    for s in $OUT; do
      [[ $s =~ ^[a-z0-9.-]+,[a-z0-9-]+$ ]] || continue
      [[ -z $INCLUDELIST ]] || listed "$s" "$INCLUDELIST" || continue
      if listed "$s" "$EXCLUDELIST"; then echo "$s: excluded"; continue; fi
      n=${s%,*} ns=${s#*,} ip='' ipns=''
      q=(get subscriptions.operators.coreos.com -n "$ns" --field-selector "metadata.name=$n")
      ask "${q[@]}" -o 'jsonpath={.items[0].status.installPlanRef.name}' && ip=$OUT
      ask "${q[@]}" -o 'jsonpath={.items[0].status.installPlanRef.namespace}' && ipns=$OUT
      if [[ -z $ip || -z $ipns ]]; then echo "$s: no install plan yet"; open=1; continue; fi
      if ! ask get installplan "$ip" -n "$ipns" -o 'jsonpath={.spec.approved}'; then open=1; continue; fi
      if [[ $OUT == true ]]; then echo "$s: $ip is approved"; continue; fi
      if ask patch installplan "$ip" -n "$ipns" --type=json -p='[{"op":"replace","path":"/spec/approved","value":true}]'
      then echo "$s: approving $ip"; patched=1; else open=1; fi
    done
  else
    open=1
  fi
  if (( !open && !patched )); then echo "every selected install plan is approved"; exit 0; fi
  left=$((end - SECONDS))
  if (( left <= 0 )); then echo "time is up"; exit $open; fi
  sleep $((left < 10 ? left : 10))
done
