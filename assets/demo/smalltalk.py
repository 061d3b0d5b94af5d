"""What the demo model says when it is not asked about k3-tui: small talk, and that it does not know. No sampling."""

from dataclasses import dataclass

UNKNOWN = "I do not know that. I only know the manual of k3-tui. Ask me about the ring or the presets."
UNKNOWN_MUST = ("do not know",)


@dataclass(frozen=True)
class Talk:
    topic: str  # what the think channel calls the message
    answer: str
    asks: tuple[str, ...]
    must: tuple[str, ...]


def talk(topic: str, answer: str, asks: str, must: str) -> Talk:
    """The lists are written with | between the entries."""
    split = lambda text: tuple(part.strip() for part in text.split("|") if part.strip())
    return Talk(topic, answer, split(asks), split(must))


TALKS = [
    talk("a greeting", "Hello! I am the demo model of k3-tui. What would you like to know?",
         "hello|hi|hey|hello there|hi there|hey there|good morning|good evening|good afternoon|good day|greetings|"
         "howdy|hello model|hi demo|hey you|hiya|yo|hello friend|hi again|hello again|hello hello|hey hey|oh hi|"
         "hello everyone|well hello|hallo|servus",
         "Hello"),
    talk("thanks", "You are welcome!",
         "thanks|thank you|thank you very much|thanks a lot|many thanks|thx|ty|great thanks|ok thanks|"
         "thanks for the help|that helped thank you|cheers|perfect thank you|thank you so much|nice thanks|"
         "good thank you|thanks for the answer|much appreciated|that was helpful|danke|merci",
         "welcome"),
    talk("a farewell", "Goodbye! Type /quit to leave.",
         "bye|goodbye|good bye|see you|see you later|bye bye|i have to go|that is all|good night|farewell|"
         "until next time|cya|take care|i am done|bye for now|see you tomorrow|i am leaving now|that was all",
         "Goodbye"),
    talk("how I am", "I am well, thank you. All my experts are at work.",
         "how are you|how are you today|how do you do|how is it going|how are things|are you well|are you ok|"
         "what's up|how do you feel|are you happy|how's it going|how have you been|you ok",
         "well"),
    talk("praise", "Thank you! I am a small model and glad to help.",
         "good job|well done|you are great|nice|great|cool|awesome|wow|i like you|good answer|very good|excellent|"
         "amazing|that is great|nice work|you are good|impressive|not bad|i love it|so cool",
         "glad"),
    talk("an agreement", "Good. What else would you like to know?",
         "ok|okay|yes|no|sure|i see|fine|right|got it|understood|alright|hm|hmm|i understand|yes please|all right|"
         "no thanks|maybe|aha|makes sense",
         "What else"),
    talk("an apology", "No harm done.",
         "sorry|i am sorry|my mistake|oops|excuse me|pardon|i apologize|forgive me|sorry about that|my bad",
         "No harm"),
    talk("a test", "I am here. It works.",
         "test|testing|are you there|is anyone there|is this working|does this work|are you working|anybody there|"
         "can you hear me|this is a test|test 1 2 3|ping|are you alive|is this on|wake up",
         "I am here"),
    talk("a joke", "A token walks into a ring. The trunk says: wait, your slot is still reading.",
         "tell me a joke|do you know a joke|make me laugh|a joke please|say something funny|joke|another joke|"
         "tell a joke|can you tell me a joke|be funny|make a joke",
         "slot"),
    talk("a greeting in Chinese", "你好！我是 k3-tui 的演示模型。",
         "你好|您好|嗨|早上好|你好吗|你是谁|大家好|你好啊|晚上好|你会说中文吗",
         "你好"),
]  # fmt: skip

# Questions about anything else: frames, and what goes into them.
OTHER_FRAMES = {
    "place": (
        "what is the capital of {x}|where is {x}|how many people live in {x}|tell me about {x}|"
        "what language do they speak in {x}|how far is it to {x}|what is the weather in {x}|is it cold in {x}|"
        "who is the president of {x}|what time is it in {x}"
    ),
    "person": (
        "who was {x}|who is {x}|when was {x} born|where was {x} born|what did {x} do|how old is {x}|tell me about {x}|"
        "is {x} still alive"
    ),
    "thing": (
        "what is {x}|tell me about {x}|how do i make {x}|where can i buy {x}|do you like {x}|"
        "what do you think about {x}|write a poem about {x}|write a story about {x}|what colour is {x}|"
        "how much does {x} cost|explain {x}|how does {x} work|describe {x}|define {x}|{x}|write an essay about {x}|"
        "what is the history of {x}"
    ),
    "task": "can you {x}|please {x}|{x}|i want you to {x}|could you {x} for me|help me {x}|how do i {x}",
    "sum": (
        "what is {a} + {b}|what is {a} plus {b}|{a}+{b}|{a} + {b} =|how much is {a} times {b}|{a} * {b}|"
        "what is {a} minus {b}|what is {a} divided by {b}|add {a} and {b}|calculate {a} + {b}|count to {a}"
    ),
    "whole": (
        "what day is it|what time is it|what is the date today|who won the world cup|what is the meaning of life|"
        "why is the sky blue|how old are you|where do you live|do you have feelings|do you dream|are you a robot|"
        "are you human|who is the best football player|what is for dinner|what is your favourite colour|"
        "do you love me|will it rain tomorrow|when is easter|how tall is the eiffel tower|what is the largest animal|"
        "how do birds fly|what is love|is there a god|who invented the telephone|what should i eat today|"
        "how many days has a year|when did the war end|what is the speed of light|how many legs has a spider|"
        "what is the longest river|what is the highest mountain|which planet is the largest|can pigs fly|"
        "do fish sleep|how do i get rich|what is my name|where am i from|how old am i|do you know me|"
        "which number am i thinking of|what did i eat yesterday"
    ),
}  # fmt: skip

OTHER_THINGS = {
    "place": (
        "france|germany|spain|italy|japan|china|india|brazil|canada|poland|norway|egypt|kenya|london|paris|berlin|"
        "rome|tokyo|new york|vienna|madrid|australia|russia|mexico|peru|chile|turkey|greece|sweden|iceland|texas|"
        "boston|sydney|cairo|moscow|portugal|hungary|finland|cuba|mars|the moon|europe|africa|lisbon|oslo|dublin"
    ),
    "person": (
        "einstein|napoleon|mozart|shakespeare|newton|picasso|darwin|cleopatra|caesar|columbus|beethoven|goethe|"
        "marie curie|galileo|gandhi|lincoln|plato|aristotle|bach|da vinci|tesla|edison|turing|ada lovelace|dante|"
        "homer|kepler|washington|churchill|elvis|my mother|my neighbour|the pope|the king|the president|batman|"
        "santa claus"
    ),
    "thing": (
        "a cake|bread|pizza|coffee|tea|a car|a bicycle|a dog|cats|the sun|the sea|football|chess|music|love|money|"
        "a house|a tree|flowers|an apple|cheese|wine|beer|soup|rice|a horse|elephants|dinosaurs|gravity|electricity|"
        "the universe|black holes|water|snow|rain|a rainbow|python|javascript|html|linux|windows|a virus|a train|"
        "airplanes|school|history|physics|chemistry|mathematics|art|a movie|books|guitar|the internet|google|facebook|"
        "bitcoin|gold|a phone|jazz|basketball|tennis|summer|winter|christmas|sushi|chocolate|bananas|spiders|whales|"
        "philosophy|democracy|yoga|a castle|a sandwich"
    ),
    "task": (
        "write code|write a python program|sort a list|translate this|sing a song|draw a picture|book a flight|"
        "send an email|call my mother|order a pizza|solve an equation|write a letter|make a website|open the door|"
        "play a game|play chess|tell me a story|do my homework|write a song|fix my car|find a job|learn french|"
        "cook dinner|lose weight|sleep better|play music|open a file|search the web|set an alarm|summarize a text|"
        "write a haiku|count to ten|say the alphabet|turn on the light|repair my phone|plan a trip|read my mail"
    ),
}  # fmt: skip
