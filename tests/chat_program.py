"""The least program that is an agent: it asks its model over HTTP, runs what it is told, and shows the output."""

PROGRAM = r"""
import json, os, sys, time, urllib.error, urllib.request

prompt = sys.stdin.read()
messages = [{"role": "user", "content": prompt}]

def ask():
    body = json.dumps({"model": os.environ["MODEL"], "messages": messages}).encode()
    head = {"content-type": "application/json", "authorization": "Bearer " + os.environ["API_KEY"]}
    request = urllib.request.Request(os.environ["API_BASE"] + "/chat/completions", body, head)
    with urllib.request.urlopen(request, timeout=30) as answer:
        message = json.load(answer)["choices"][0]["message"]
    messages.append(message)
    return message

def work():
    while calls := ask().get("tool_calls"):
        for call in calls:
            done = os.popen(json.loads(call["function"]["arguments"])["command"]).read()
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": done})

"""
