"""What the demo model says when it is not asked about k3-tui: small talk, and that it does not know. No sampling.
Wordings are grammars, see `grammar.py`."""

from dataclasses import dataclass

from grammar import Grammar

UNKNOWN = "I do not know that. I only know the manual of k3-tui. Ask me about the ring or the presets."
UNKNOWN_MUST = ("do not know",)
UNKNOWN_WHY = "I am a small model. I only learned the manual of k3-tui."
UNKNOWN_WHY_MUST = ("small model",)


@dataclass(frozen=True)
class Talk:
    topic: str  # what the think channel calls the message
    answer: str
    must: tuple[str, ...]
    asks: Grammar
    share: float  # how often, against the others
    usual: Grammar | None  # the few forms that are typed most


def talk(topic: str, answer: str, must: str, asks: str, share: float = 1.0) -> Talk:
    usual = USUAL.get(topic)
    return Talk(topic, answer, tuple(must.split("|")), Grammar(asks), share, usual and Grammar(usual))


TO = "[ there| friend| model| demo| kimi| everyone| again| you| my friend| k3| computer| mate||||]"

USUAL = {
    "a greeting": "hello|hi|hey|good morning|hello there|hi there|good evening",
    "thanks": "thanks|thank you|thx|thank you very much|ok thanks|thanks a lot",
    "a farewell": "bye|goodbye|bye bye|see you|good night|see you later|ok bye",
    "how I am": "how are you|how are you doing|what's up|how is it going",
    "praise": "well done|good job|nice|great|you are great|cool",
    "an agreement": "ok|okay|yes|no|i see|got it|sure|right",
    "an apology": "sorry|i am sorry|oops",
    "a test": "test|ping|are you there|testing",
    "a joke": "tell me a joke|joke|another joke",
    "a language": "do you speak chinese|do you speak german|which languages do you speak",
    "a sum that I cannot do": "what is {a} times {b}|{a} - {b}|{a} * {b}|what is {a} minus {b}",
    "a sum to come": "can you add|can you calculate|can you count",
    "a greeting in Chinese": "你好|您好|你是谁|你好吗",
    "a question in Chinese": "k3-tui 是什么|这是什么|这个程序有什么用",
    "thanks in Chinese": "谢谢|谢谢你",
    "a greeting in Japanese": "こんにちは|あなたは誰ですか",
    "thanks in Japanese": "ありがとう|ありがとうございます",
    "a greeting in Russian": "привет|кто ты",
    "thanks in Russian": "спасибо",
}

TALKS = [
    talk("a greeting", "Hello! I am the demo model of k3-tui. What would you like to know?", "Hello",
         f"[hello|hi|hey|hiya|hallo|yo|helo|hello hello|hi hi]{TO}|[good |][morning|evening|afternoon|day]{TO}|"
         f"good [morning|evening|afternoon|day]{TO}|greetings{TO}|howdy{TO}|[well |oh |ah |]hello{TO}|"
         f"[oh |well |hey |]hi{TO}|[hello|hi|hey], [nice|good|great] to [meet|see] you|[nice|pleased|glad] to meet you|"
         "hola|bonjour|servus|ciao|salut|moin|hello from me|hi, i am [new|new here|alice|bob|a newcomer|back]|"
         "i am [back|here|new here]|hello, [is|are] [anyone|anybody|you] [here|there]|just saying [hi|hello]|say [hello|hi]", 1.6),
    talk("thanks", "You are welcome!", "welcome",
         "[thanks|thank you|thx|ty|many thanks|cheers|thank u|thanks a lot|thank you very much|thank you so much]"
         "[ a lot| very much| so much| for the help| for your help| for that| for the answer| for explaining| friend| again| "
         "demo| model| kimi||||]|[ok|okay|great|good|nice|perfect|fine|cool|wonderful|super|alright|yes|no|oh|wow|aha|all right|"
         "i see][,|] [thanks|thank you|thx|many thanks|thank you very much|thanks a lot]|"
         "[that|this] [helped|was helpful|was useful|helps|is helpful|was a help][, thanks|, thank you| a lot| me|]|"
         "[much|very much] appreciated|i appreciate [it|that|your help]|[thank you|thanks], [this|that] [was|is] "
         "[useful|helpful|good|great|clear]|danke|merci|gracias|i thank you|you [helped|have helped] me[ a lot|]|"
         "i am [grateful|thankful]", 1.5),
    talk("a farewell", "Goodbye! Type /quit to leave.", "Goodbye",
         "[bye|goodbye|good bye|bye bye|cya|farewell|ciao for now|see you|see ya|so long][ then| now| for now| later| tomorrow| "
         "soon| friend| model| kimi| demo| all||||]|[i have to|i must|i need to|i should|i will|time to] [go|leave|go now|"
         "leave now|go to bed|sleep]|[that is|that was|that's] [all|it|everything][ for today| for now| thanks|]|good night"
         "[ model| kimi| friend|]|until [next time|tomorrow|later]|take care|i am [done|leaving|going|off|leaving now|going now|"
         "done for today]|[talk|speak] to you [later|soon|tomorrow]|have a [nice|good|great] [day|evening|night|one]|"
         "[ok|well|thanks|alright|great][,|] [bye|goodbye|see you|bye bye|good night]"),
    talk("how I am", "I am well, thank you. All my experts are at work.", "well",
         "how are you[ today| doing| doing today| feeling| now| then| my friend||||]|[hello|hi|hey][,|] how are you[ today| doing|]|"
         "how [do you do|do you feel|have you been|is it going|are things|goes it|is life|is your day|was your day]|"
         "how's [it going|life|everything|your day]|are you [well|ok|okay|fine|good|happy|sad|tired|all right|busy|bored]|"
         "what's up|whats up|sup|how is everything|[you|all] [ok|okay|good|well|fine]|how do you feel [today|now]|"
         "and how are you|is everything [ok|all right|fine|good]"),
    talk("praise", "Thank you! I am a small model and glad to help.", "glad",
         "[good|great|nice|excellent|fine|amazing] [job|work|answer|model|one]|well done|you are [great|good|nice|cool|awesome|"
         "clever|smart|amazing|funny|so good|the best|impressive|very good|cute|helpful|sweet|wonderful|a good model]|"
         "[that|this|it] is [great|cool|amazing|awesome|impressive|nice|very good|wonderful|so cool|fantastic|good|excellent]|"
         "[nice|great|cool|awesome|wow|excellent|amazing|impressive|fantastic|wonderful|super|bravo|brilliant]|very [good|nice|cool]|"
         "i [like|love] [you|it|this|that|this program|your answers]|not bad|so cool|how [nice|cool|clever]|what a [good|nice|"
         "clever] [answer|model]|wow[,|] [great|nice|cool|impressive]|you know a lot"),
    talk("an agreement", "Good. What else would you like to know?", "What else",
         "[ok|okay|sure|right|fine|yes|yeah|yep|alright|all right|hm|hmm|aha|got it|understood|i see|no|nope|maybe|k|well|so|oh|ah]|"
         "[ok|okay|yes|ah|oh|aha|right|fine|alright][,|] [i see|i understand|got it|good|understood|makes sense|i get it|sure]|"
         "i [understand|get it|see|got it|understand now|see now]|[that|it] makes sense|yes [please|sure|of course]|of course|"
         "no [thanks|thank you|problem|more questions]|that is [clear|fine|ok]|[now|ok|yes] i [understand|know|get it]|"
         "[very |]interesting|good to know|i did not know that|[i will|let me] [try|think] [that|about it|it]|if you say so"),
    talk("an apology", "No harm done.", "No harm",
         "[sorry|i am sorry|i'm sorry|pardon|excuse me|oops|forgive me|my bad|my mistake|i apologize|my apologies|apologies|"
         "so sorry|ups]|[oh |oops |]sorry[ about that| for that| for the mistake|, my mistake|, that was me| my friend|]|"
         "[oh|oops|ok][,|] [my mistake|my bad|sorry|i am sorry]|i did not mean [it|that]|that was [my|a] mistake|"
         "i am [really|very|so] sorry|forgive me[ please|]|please [forgive|excuse] me"),
    talk("a test", "I am here. It works.", "I am here",
         "[test|testing|ping|hello test|tests|a test]|[this is|just] a test|test [1|one|123|1 2 3|test|message]|are you "
         "[there|awake|working|here|listening|ready|online now|on|running|still there]|[is|does] [anyone|anybody|someone] [there|here]|"
         "[anyone|anybody] [there|here|home]|[is|does] this [working|work|on|thing on]|[can|do] you [hear|read|see|understand] me|"
         "does [it|this] work|is it working|wake up|do you work|[can|do] you answer|say something|"
         "testing [testing|one two|1 2]|asdf|foo|qwerty|bla bla|blah"),
    talk("a joke", "A token walks into a ring. The trunk says: wait, your slot is still reading.", "slot",
         "[please |][tell|give|show] [me |us |][a|another|one|your best|one more|a good|a funny|a short] joke[ please|]|"
         "[do|can] you [know|tell|have|make][ me|] [a joke|jokes|any jokes|a good joke]|make me [laugh|smile]|"
         "[a joke|another joke|jokes|joke|one more joke][ please|]|say something [funny|witty]|be funny|"
         "[i want|i would like|i need] [to hear |]a joke|know any [good |]jokes|can you be funny|are you funny|"
         "cheer me up|entertain me"),
    talk("an insult", "I am small and do my best. Ask me about the ring or the presets.", "do my best",
         "you are [stupid|dumb|bad|useless|an idiot|silly|a bad model|terrible|boring|crazy|slow in the head|not smart|"
         "not helpful|ugly|annoying|so stupid|so dumb|the worst]|you [suck|idiot|fool|know nothing|are no help|disappoint me]|"
         "[stupid|dumb|bad|useless|silly] [model|thing|answer|machine|bot|program|demo]|i [hate|do not like|don't like] "
         "[you|this|it|your answers]|[that|this] is [stupid|bad|useless|rubbish|boring|no help|not helpful]|"
         "why are you so [stupid|dumb|bad|useless]|go away|damn|what a stupid [model|answer]"),
    talk("a language", "I know English, and a few sentences in Chinese, Japanese and Russian.", "few sentences",
         "[do|can] you [speak|know|understand|write] [chinese|german|french|spanish|japanese|russian|english|italian|arabic|"
         "other languages|another language|any language]|[which|what|how many] languages do you [speak|know|understand]|"
         "[can|could] you [answer|reply|talk] in [chinese|german|french|spanish|japanese|russian|another language]|"
         "[speak|answer in|talk in|say it in|write in] [chinese|german|french|spanish|japanese|russian]|"
         "sprichst du deutsch|parlez-vous francais|hablas espanol|in [german|french|chinese|spanish] please|languages|"
         "what languages [are there|can i use]|[may|can] i [write|ask] in [german|chinese|french]"),
    talk("a sum that I cannot do", "I can only add numbers below 100. Ask me what 17 plus 25 is.", "only add",
         "[what is|what's|how much is|calculate|compute|] {a} [times|minus|divided by|multiplied by|x|modulo|over|to the power of] {b}|"
         "{a} [*|-|/|x|^] {b}|{a}[*|-|/]{b}|[multiply|divide] {a} [by|and|with] {b}|subtract {a} from {b}|"
         "what is [the square root of|half of|twice|the square of] {a}|[is {a} a prime|is {a} even|is {a} odd]|"
         "what is {a}[0|00|000] [plus|+] {b}[0|00|000]|{a}00[+| + ]{b}00|what is {a} percent of {b}|{a} take away {b}|"
         "[can|do] you [do|know|like] [math|maths|mathematics|arithmetic|calculus]|can you [multiply|divide|subtract]|"
         "[solve|do] [an equation|my math|some math]|what is pi|{a} minus {b}", 1.4),
    talk("a sum to come", "Yes, numbers below 100. Ask me what 17 plus 25 is.", "below 100",
         "can you [add|calculate|count|add numbers|do sums|add up|do a sum|do addition]|[do you know|are you good at] "
         "[sums|numbers|adding|addition]|can you add [two |some |small |][numbers|digits]|let us [calculate|add|do sums]|"
         "[sums|addition|numbers|calculate|calculator]", 0.7),
    talk("a question without its thing", "I do not know what you mean. Ask me about the ring or the presets.", "what you mean", "", 0.0),
    talk("a greeting in Chinese", "你好！我是 k3-tui 的演示模型。", "演示模型",
         "[你好|您好|嗨|早上好|晚上好|大家好|哈喽|下午好][啊|呀|！|，|][朋友|模型|]|你好吗|你是谁|你是什么|你叫什么|你叫什么名字|"
         "[你好，|请问，|]你是[谁|什么|什么模型|哪个模型|机器人吗]|你会[说|讲]中文吗|介绍一下你自己|请介绍[一下|]自己", 1.2),
    talk("a question in Chinese", "k3-tui 在终端里运行 Kimi K3，从硬盘读取模型。", "硬盘",
         "[这|这个程序|这个软件|k3-tui|这个]是什么[？|]|[什么是|介绍一下|请介绍|请问什么是] k3-tui|k3-tui [是做什么的|有什么用|怎么用]|"
         "[这个程序|它|k3-tui][有什么用|做什么|是做什么的]|[怎么|如何]使用[它|这个程序|]|这是什么[程序|软件|东西]|Kimi K3 是什么|什么是 Kimi K3", 0.8),
    talk("thanks in Chinese", "不客气！", "不客气",
         "谢谢[你|您|大家|了|你的帮助|]|[非常|太|很]感谢[你|]|多谢[了|]|感谢[你|您|]|好的，谢谢[你|]|谢了", 0.6),
    talk("a greeting in Japanese", "こんにちは！k3-tui のデモモデルです。", "デモモデル",
         "[こんにちは|こんばんは|おはよう|おはようございます|はじめまして|やあ|どうも][！|。|]|あなたは[だれ|誰|何]ですか|"
         "[お名前|名前]は[何ですか|]|日本語[を話せますか|は話せますか|でいいですか|]|これは何ですか", 1.0),
    talk("thanks in Japanese", "どういたしまして！", "どういたしまして",
         "ありがとう[ございます|ございました|ね|！|]|どうもありがとう[ございます|]|感謝します|助かりました", 0.5),
    talk("a greeting in Russian", "Привет! Я демо-модель k3-tui.", "демо-модель",
         "[привет|здравствуйте|здравствуй|добрый день|доброе утро|добрый вечер|приветствую][!| всем| друг| модель|]|"
         "[кто|что] ты[ такой| такое|]|как тебя зовут|[ты говоришь|вы говорите] по-русски|что это[ такое| за программа|]|кто вы", 1.0),
    talk("thanks in Russian", "Пожалуйста!", "Пожалуйста",
         "[большое |огромное |]спасибо[ большое| тебе| вам| за помощь| за ответ|]|благодарю[ вас| тебя|]", 0.5),
]  # fmt: skip

# Questions about anything else: what stands for {x}, and wordings.
THINGS = {
    "place": (
        "france|germany|spain|italy|japan|china|india|brazil|canada|poland|norway|egypt|kenya|london|paris|berlin|"
        "rome|tokyo|new york|vienna|madrid|australia|russia|mexico|peru|chile|turkey|greece|sweden|iceland|texas|"
        "boston|sydney|cairo|moscow|portugal|hungary|finland|cuba|mars|the moon|europe|africa|lisbon|oslo|dublin|denmark|"
        "switzerland|austria|belgium|the netherlands|ireland|scotland|england|america|the united states|california|"
        "argentina|korea|vietnam|thailand|iran|israel|ukraine|prague|warsaw|amsterdam|brussels|zurich|beijing|shanghai|"
        "hong kong|singapore|delhi|seoul|bangkok|nairobi|lagos|lima|bogota|havana|toronto|chicago|hamburg|munich|venice|"
        "naples|athens|istanbul|jupiter|saturn|venus|asia|antarctica|the north pole|siberia|hawaii|alaska|florida"
    ),
    "person": (
        "einstein|napoleon|mozart|shakespeare|newton|picasso|darwin|cleopatra|caesar|columbus|beethoven|goethe|"
        "marie curie|galileo|gandhi|lincoln|plato|aristotle|bach|da vinci|tesla|edison|turing|ada lovelace|dante|"
        "homer|kepler|washington|churchill|elvis|my mother|my neighbour|the pope|the king|the president|batman|"
        "santa claus|socrates|buddha|confucius|copernicus|hemingway|tolstoy|van gogh|rembrandt|chopin|the queen|"
        "my boss|my father|my sister|harry potter|superman|gauss|euler|archimedes|hannibal|alexander the great|"
        "marilyn monroe|michael jackson|the prime minister|obama|mandela|kafka|frida kahlo|amundsen|magellan"
    ),
    "thing": (
        "a cake|bread|pizza|coffee|tea|a car|a bicycle|a dog|cats|the sun|the sea|football|chess|music|love|money|"
        "a house|a tree|flowers|an apple|cheese|wine|beer|soup|rice|a horse|elephants|dinosaurs|gravity|electricity|"
        "the universe|black holes|water|snow|rain|a rainbow|python|javascript|html|windows|a virus|a train|"
        "airplanes|school|physics|chemistry|mathematics|art|a movie|books|a guitar|google|facebook|blockchain|"
        "bitcoin|gold|a phone|jazz|basketball|tennis|summer|winter|christmas|sushi|chocolate|bananas|spiders|whales|"
        "philosophy|democracy|yoga|a castle|a sandwich|photosynthesis|evolution|a volcano|an earthquake|the ocean|time|"
        "a clock|a boat|a ship|the weather|a cat|birds|fish|a lion|tigers|bees|honey|milk|eggs|potatoes|tomatoes|pasta|"
        "salad|a banana|sugar|salt|fire|wind|clouds|stars|a planet|a comet|the earth|a river|a mountain|a forest|"
        "the desert|a bridge|a church|a museum|a hospital|medicine|a doctor|vaccines|cancer|the heart|the brain|blood|"
        "dna|atoms|quantum physics|relativity|a magnet|light|sound|a radio|television|a camera|a robot dog|a laser|"
        "a rocket|nasa|the olympics|the world cup|golf|swimming|running shoes|a marathon|dancing|ballet|opera|rock music|"
        "a piano|a violin|poetry|a novel|a newspaper|politics|elections|war|peace|taxes|stocks|a bank|insurance|"
        "a job|marriage|friendship|happiness|god|religion|the bible|death|sleep|dreams|fear|a holiday|easter|halloween|"
        "a birthday|a wedding|gardening|cooking|fishing|a knife|a chair|a lamp|a shirt|shoes|a hat|an umbrella|java|"
        "typescript|docker|kubernetes|git|wikipedia|youtube|a website|a database|excel|minecraft|a video game|pokemon"
    ),
    "task": (
        "write code|write a python program|sort a list|translate this|sing a song|draw a picture|book a flight|"
        "send an email|call my mother|order a pizza|solve a riddle|write a letter|make a website|open the door|"
        "play a game|play chess|tell me a story|do my homework|write a song|fix my car|find a job|learn french|"
        "cook dinner|lose weight|sleep better|play music|search the web|set an alarm|summarize a text|"
        "write a haiku|say the alphabet|turn on the light|repair my phone|plan a trip|read my mail|write an essay|"
        "write a bash script|write a script that renames files|write a function|fix a bug|debug my code|write a test|"
        "parse json|reverse a string|write a poem|rhyme|tell the future|predict the weather|buy a car|sell my house|"
        "bake bread|make coffee|wash my clothes|clean the kitchen|paint a wall|grow tomatoes|train my dog|feed the cat|"
        "learn the guitar|run a marathon|become rich|invest money|file my taxes|write a resume|prepare an interview|"
        "translate to german|translate hello to french|proofread my text|name my baby|choose a gift|make friends"
    ),
}  # fmt: skip

OTHER = {
    "place": (
        "[what is|what's|tell me|name] the [capital|population|currency|area|flag|language|history|president|king|climate] of {x}|"
        "where is {x}|how many people live in {x}|tell me [about|something about] {x}|what language do they speak in {x}|"
        "how far is [it to |]{x}|[what is|how is] the weather in {x}|is it [cold|hot|nice|safe] in {x}|"
        "who is the [president|king|mayor] of {x}|what time is it in {x}|how big is {x}|have you been to {x}|"
        "what [can|should] i [do|see|eat] in {x}|how do i get to {x}|do you know {x}|what is {x} famous for"
    ),
    "person": (
        "who [was|is] {x}|[when|where] was {x} born|what did {x} [do|write|say|discover]|how old is {x}|tell me about {x}|"
        "is {x} still alive|when did {x} die|what is {x} known for|do you know {x}|where does {x} live|"
        "what do you think [of|about] {x}|write about {x}|how tall is {x}"
    ),
    "thing": (
        "what is {x}|tell me about {x}|how do i make {x}|where can i buy {x}|do you like {x}|"
        "what do you think [about|of] {x}|write a [poem|story|song|joke|text|essay] about {x}|what colour is {x}|"
        "how much does {x} cost|explain {x}|how does {x} work|describe {x}|define {x}|{x}|"
        "what is the history of {x}|who invented {x}|what is the best [kind of |]{x}|why do people like {x}|"
        "what does {x} mean|[can|could] you explain {x}|i want to know about {x}|where does {x} come from|"
        "how is {x} made|why is {x} [so |]important|what do you know about {x}|how old is {x}|how big is {x}"
    ),
    "task": (
        "[can|could|will|would] you {x}[ for me| please|]|please {x}|{x}|i want you to {x}|help me [to |]{x}|how do i {x}|"
        "i need to {x}|[how can|how do] you {x}|do you know how to {x}|i want to {x}|what is the best way to {x}|teach me to {x}"
    ),
    "whole": (
        "what [day|time|year|month] is it[ now| today|]|what is the [date|time][ today| now|]|who won the [world cup|election|match]|"
        "what is the meaning of life|why is the [sky blue|grass green|sea salty|moon round]|how old are you|where do you live|"
        "do you [have feelings|dream|sleep|eat|have friends|have a family|like me|love me]|"
        "who is the best [football player|singer|actor|writer]|what is for dinner|"
        "what is your favourite [colour|food|film|book|song|animal]|will it [rain|snow] [tomorrow|today]|when is [easter|christmas]|"
        "how tall is [the eiffel tower|mount everest]|what is the [largest|smallest|fastest|oldest] [animal|country|city|planet|tree]|"
        "how do [birds fly|fish breathe|planes fly|cars work]|is there [a god|life on mars]|"
        "who [invented the telephone|painted the mona lisa|wrote hamlet|discovered america|built the pyramids]|"
        "what should i [eat today|wear today|read|watch tonight|cook]|how many [days has a year|legs has a spider|hours has a day|"
        "continents are there|planets are there|people live on earth]|when did the [war|middle ages] [end|begin]|"
        "what is the [speed of light|longest river|highest mountain|weather|news today|weather like today]|"
        "can pigs fly|do fish sleep|how do i get [rich|thin|famous]|what is my [name|age|job]|[where|who|how old] am i|"
        "do you know [me|my name|who i am]|which number am i thinking of|what did i eat yesterday|"
        "what is the [best|cheapest] [phone|car|laptop to buy|restaurant|hotel]|are we alone[ in the universe|]|"
        "what happened [yesterday|in 1989|in 1945|today]|how do you say [hello|thanks] in [french|german|latin]|"
        "what is [happening|new] in the [world|news]|where is my [phone|key|car]|i am [sad|tired|hungry|bored|ill|in love]|"
        "my [dog|head|car|back] [hurts|is ill|is broken]|what is [the gdp|inflation|your opinion on politics]"
    ),
}  # fmt: skip
