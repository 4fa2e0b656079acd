#!/bin/sh
# Free the dead letters of quorum queues that wait for a node which is away. For RabbitMQ 3.10; see docs/brokers.md.
#
#   free-dead-letters.sh [SECONDS]
#
# Run it on each node of the cluster, as a user that may run rabbitmqctl; with SECONDS it repeats for ever. It
# starts the dead-letter worker of a queue anew if a target has refused some of its messages for 10 s. The new
# worker looks the target's leader up again and publishes everything that no target has confirmed. Nothing is lost
# by it; few messages may be published twice. It prints one line per queue that it freed.
# The variable RABBITMQCTL replaces the command rabbitmqctl.
set -eu

# sys:get_status answers with the worker's own report: a map whose key `pendings` holds one map per message.
free='
  Old = os:system_time(millisecond) - 10000,
  Refused = fun(#{rejected := R, consumed_at := At}) -> R =/= [] andalso At < Old; (_) -> false end,
  Report = fun(P) ->
    {status, _, _, [_, _, _, _, Items]} = sys:get_status(P, 5000),
    [S | _] = [S || {data, Rows} <- Items, {"State", S} <- Rows],
    S
  end,
  [io:format("freed ~ts~n", [element(4, Queue)]) ||
    {_, P, _, _} <- supervisor:which_children(rabbit_fifo_dlx_sup),
    #{queue_ref := Queue, pendings := Pendings} <- [catch Report(P)],
    lists:any(Refused, maps:values(Pendings)),
    ok == supervisor:terminate_child(rabbit_fifo_dlx_sup, P),
    ok == element(1, supervisor:start_child(rabbit_fifo_dlx_sup, [Queue]))],
  ok.
'

once() { ${RABBITMQCTL:-rabbitmqctl} --quiet eval "$free"; }

if [ $# -eq 0 ]; then
    once
    exit
fi
while :; do
    once || echo "free-dead-letters: rabbitmqctl failed; the next try is in $1 s" >&2
    sleep "$1"
done
