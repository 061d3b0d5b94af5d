"""Freely worded questions, with the words of a right answer, and ten of a newcomer. Not made by any grammar; for
evaluation only."""

from smalltalk import UNKNOWN_MUST

FREE = [
    ("good morning, how can I end this application?", ("/quit",)),
    ("is there a way to wipe our chat and begin fresh", ("/reset",)),
    ("I'd like you to think a bit less before answering", ("/effort",)),
    ("what happens inside the ring?", ("slots",)),
    ("are you really Kimi K3 or something smaller?", ("demo model",)),
    ("my pc has only 4 gb of ram, will that do?", ("1 GB",)),
    ("why do I need to wait so long for each word?", ("disk",)),
    ("can you tell me which commands I may use here", ("/help",)),
    ("what is it that experts do in this model", ("small networks",)),
    ("name all the presets for me", ("ultra", "auto")),
    ("how large is the full kimi model on disk", ("1.56 TB",)),
    ("what does the trunk consist of?", ("every token",)),
    ("do you need a graphics card from nvidia", ("No GPU",)),
    ("which licence does this software have?", ("Apache-2.0",)),
    ("what is shown in the upper part, the think pane?", ("before it answers",)),
    ("can a conversation be continued tomorrow, is it stored?", ("conversation",)),
    ("how do I switch off the thoughts", ("/think off",)),
    ("what is a dropped expert and is it dangerous", ("could not be read",)),
    ("hello, nice to meet you", ("Hello",)),
    ("thank you, this was useful", ("welcome",)),
    ("what is the population of Denmark?", UNKNOWN_MUST),
    ("who painted the mona lisa", UNKNOWN_MUST),
    ("write me a bash script that renames files", UNKNOWN_MUST),
    ("what is 17 times 3", ("only add",)),
]

NEWCOMER = [
    "Hi! So what exactly am I talking to right now?",
    "I have an old laptop with 8 GB, does Kimi K3 even work there?",
    "Why is my hard drive so busy all the time?",
    "Which button do I press when I want it to shut up?",
    "What do all those figures in the corner tell me?",
    "Do my chats end up on some server on the internet?",
    "Could you add 48 and 37 for me?",
    "Who won the football game last night?",
    "How would I make the answers come quicker?",
    "What on earth are experts?",
]
