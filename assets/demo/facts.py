"""What the demo model knows: facts about k3-tui with the ways to ask for them, and what can be asked about a fact that
was just told. No sampling, no chat format. Wordings are grammars, see `grammar.py`."""

from dataclasses import dataclass

from grammar import Grammar

# Ways to ask for a thing.
FRAMES = (
    "[so |and |but |ok |]what[ is| exactly is| actually is| really is|'s|s| are] {n}|what does {n} [mean|do|mean here]|"
    "what do {n} [mean|do]|what is {n} [for|good for|used for|about]|what is the [use|purpose|point|meaning|idea] of {n}|"
    "[can|could|would] you [please |][explain|describe|define] {n}[ to me| for me| in short| briefly|]|"
    "[please |]explain {n}[ to me| in simple words| briefly| please|]|[please |]describe {n}|define {n}|"
    "[please |]tell me [about {n}|what {n} is|what {n} means|something about {n}|what {n} does]|"
    "i [do not|don't|dont] [understand|get|know] {n}|i [do not|don't] know what {n} [is|means|are]|"
    "i [want|would like|'d like|need] to [know|learn|understand|hear] [about {n}|what {n} is|what {n} means]|"
    "[what|how|anything] about {n}|how [does|do] {n} work|how [do|would|can] you explain {n}|[the |]meaning of {n}|"
    "{n}|{n} [meaning|definition|explained|explanation|info|help|please]|{n}, what is [that|it|this]|"
    "[help me |let me |make me |]understand {n}|what [do|can] you [know|say|tell me] about {n}|"
    "what [should|must] i know about {n}|[my |a |one |quick |i have a ||]question about {n}|question: {n}|"
    "what is meant by {n}|what [did|do] [you|they] mean by {n}|"
    "give me a [short |brief |simple |][description|explanation|definition|idea] of {n}|"
    "do you know [what {n} is|{n}|about {n}|anything about {n}|what {n} means]|talk about {n}|"
    "what [kind|sort] of thing is {n}|i [see|read|saw|noticed|heard of] {n}[ here| on the screen| in the manual|], "
    "what is [it|that|this]|what was {n} again|remind me what {n} is|in [simple|plain|short] words, what is {n}|"
    "what is {n} in [simple|plain|a few|short] words|i am [curious|interested|asking] about {n}|"
    "[information|info|details] [on|about] {n}|the word {n}|the term {n}|what does the word {n} mean"
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What can be asked about a fact, beside what it is."""

    label: str  # how the think channel names it
    named: str  # wordings that name the thing
    bare: str  # wordings that point to what was just talked about
    nothing: str  # the answer where the manual says nothing


KINDS = {
    "more": Kind(
        "more about it",
        "[tell me|say|i want to know|i would like to hear|let me hear] [a bit |a little |]more about {n}|"
        "[give me |]more [details|information|info] [on|about] {n}|more about {n}|"
        "what [else|more] [is there to know|do you know|can you say|should i know] about {n}|"
        "[explain|describe] {n} in more detail|[anything|something] else about {n}",
        "[please |][tell me|say|tell] [a bit |a little |some |]more[ about [it|that|this|them]|]|more|more please|"
        "and what else|what else|[anything|something] else|go on|and then|[can|could] you [say|tell me] more|"
        "[give me |]more details[ please|]|[explain|elaborate] more|elaborate|[i want to|can i] know more|"
        "in more detail|[what more|what else] [is there|do you know][ about [it|that]|]|keep going|"
        "interesting, [tell me more|go on|and]|[more|details] about [it|that|this]|explain [it|that] in more detail",
        "That is all I know about {t}."),
    "why": Kind(
        "the reason",
        "why [is|are|do we need|do i need|does it need|is there|are there|does it have|do you have|have] {n}|"
        "[what is |]the reason for {n}|[for what reason|why] {n}|why would i [need|want|use] {n}",
        "why|why is that|why so|but why|how come|[and |but |]why is [it|this|that] so|why does it [do that|do so|work like that]|"
        "what for|what is the reason[ for [it|that|this]|]|and why[ is that|]|for what reason|why that|"
        "why [is it|are they] [needed|there|like that|good|useful|important]|why do [i|you|we] need [it|that|this|them]|"
        "[can|could] you [say|tell me|explain] why|tell me why|explain why|i wonder why|why [not|though]",
        "The manual does not say why."),
    "change": Kind(
        "how to change it",
        "<how> [change|set|adjust|configure|choose|switch|control|alter|modify] {n}|change {n}|set {n}|"
        "how [is|are] {n} [set|changed|chosen|controlled]|changing {n}|setting {n}",
        "[and |but |so |]how [do|can|could|should|would] i [change|set|adjust|configure|control|alter|modify|switch] "
        "[it|that|this|them]|[and |]can i [change|set|adjust|configure|influence] [it|that|this|them]|"
        "how [to|do you] [change|set|adjust] [it|that|this]|[how|where] is [it|that|this] [changed|set|configured]|"
        "and to change it|i want to [change|set|adjust] [it|that]|where do i [set|change] [it|that|this]|"
        "[is|are] [it|that|they] [adjustable|configurable|fixed]|what if i want to change [it|that]|change it|"
        "how do i make it [bigger|smaller|different]",
        "I know no setting for {t}."),
    "size": Kind(
        "how much it is",
        "how [big|large|much|long] [is|are] {n}|[what is |]the size of {n}|what size [has|is|are|have] {n}|"
        "how many {n}|how many {n} [are there|does it have|has it]",
        "[and |but |so |]how [big|large|long|small] [is|are] [it|that|this|they|those]|what size[ is [it|that]|]|"
        "[and |]how many[ [are there|are they|of them|is that|]|]|[and |]how much[ [is it|is that|does it take|]|]|"
        "what is [the|its] size|[is|are] [it|that|they] [big|large|small]",
        "I know no number for {t}."),
    "again": Kind(
        "the same again",
        "[repeat|say again|once more], what is {n}|what is {n} once more",
        "[say|explain|tell me] [that|it] again|again|[again|once more] please|once more|[can|could] you repeat [that|it|this]|"
        "repeat[ that| it|]|[pardon|sorry], what [did you say|was that]|what was that[ again|]|"
        "i [did not|didn't] [understand|get|catch|read] [that|it|this]|what did you say|"
        "[can|could] you say [that|it] again|i forgot, what was it",
        ""),
}  # fmt: skip


@dataclass(frozen=True)
class Aspect:
    """An answer about a fact."""

    answer: str
    must: tuple[str, ...]  # all of these words are in a right answer
    wordings: Grammar  # with the thing named


@dataclass(frozen=True)
class Fact:
    topic: str  # how the think channel names it
    gist: str  # what the think channel recalls at high and max effort
    asks: Grammar | None  # whole questions of its own
    aspects: dict[str, Aspect]  # "what" is always there


def fact(topic: str, gist: str, answer: str, must: str, nouns: str, asks: str = "", **kinds: tuple[str, ...]) -> Fact:
    """`must` has | between the words. A kind is an answer, its words, and perhaps wordings of its own."""
    frames = FRAMES.replace("{n}", f"[{nouns}]")
    aspects = {"what": Aspect(answer, tuple(must.split("|")), Grammar(frames))}
    for kind, (text, words, *own) in kinds.items():
        named = KINDS[kind].named.replace("{n}", f"[{nouns}]")
        wordings = Grammar("|".join([named] * bool(nouns) + own))
        aspects[kind] = Aspect(text, tuple(words.split("|")), wordings)
    return Fact(topic, gist, Grammar(asks) if asks else None, aspects)


FACTS = [
    # The program and the models.
    fact("k3-tui", "a terminal chat that streams Kimi K3 from disk",
         "k3-tui is a terminal chat for Kimi K3. It streams the model from disk, so that it runs on a home computer.",
         "terminal|streams",
         "k3-tui|this [program|app|application|tool|software|thing]|the [k3-tui program|program|application]|k3 tui|k3tui",
         "what is this|what is this [all about|here]|what am i [looking at|seeing|using]|where am i|"
         "what does this [program|app|thing|tool] do|what can this [program|app|tool] do|"
         "why should i use this [program|tool]|what did i [start|open|install]|what is going on here",
         more=("It shows the thinking, the answer, and what disk and memory do, all on one screen. It is written in Rust.",
               "one screen"),
         why=("Kimi K3 is far larger than the memory of a home computer. So k3-tui reads it from disk.", "far larger")),
    fact("Kimi K3", "2.78 trillion parameters, 1.56 TB on disk",
         "Kimi K3 is a language model of 2.78 trillion parameters. It takes 1.56 TB on disk.",
         "2.78 trillion",
         "kimi k3|the [real |big |full |large |whole ][kimi|kimi k3|model]|kimi|k3 model|the kimi k3 model",
         "how [big|large] is [kimi|kimi k3|the real model|the full model|k3]|how many parameters does [kimi|kimi k3] have|"
         "how much disk does kimi k3 [take|need|use]|what size is [kimi k3|kimi]|how many [terabytes|tb|gigabytes] is "
         "[kimi|kimi k3|the model]|how many [weights|parameters] [are there|has kimi k3|has kimi]",
         more=("Kimi K3 has 93 layers and 896 experts in a layer. 16 experts work on each token.", "93|896"),
         why=("More parameters know more. Only a small part of them works on each token.", "know more")),
    fact("the demo model", "a few million parameters, trained on the manual",
         "I am the demo model: a few million parameters, trained on the manual of k3-tui. I am not Kimi K3.",
         "demo model|not Kimi K3",
         "the demo [model|]|the [small|tiny|built-in|included] model|demo model|this model",
         "who are you|who are you [really|exactly|anyway]|what are you|who am i [talking|speaking|chatting] [to|with]|"
         "[what|which] model [is this|are you|am i using|do you use|is running|is this here]|"
         "are you [kimi|kimi k3|the real kimi|the real model|a real ai|an ai|chatgpt|gpt|claude|a bot|a person|human|"
         "a robot|a computer|a language model|a human|alive|real]|introduce yourself|what is your name|what's your name|"
         "do you have a name|[who|what] is this|tell me [about yourself|who you are|your name]|your name|"
         "[is|was] this [kimi|kimi k3|the real model|the demo]|is this the [demo|real kimi k3]|say who you are|"
         "what should i call you|who [is speaking|answers me|answers here]",
         more=("I have 6 layers and 32 experts in a layer. I work like Kimi K3, but I know very little.", "6 layers"),
         why=("I am here so that you can try k3-tui without a download.", "without a download",
              "why [are you here|do you exist|were you made|is there a demo|a demo model]"),
         size=("I have about 4 million parameters. Kimi K3 has 2.78 trillion.", "4 million",
               "how [big|large|small|smart] are you|how many parameters do you have|what is your size|your size|"
               "how many [weights|parameters] are in [you|the demo]|how much disk do you take"),
         change=("Start k3-tui with the folder of a real checkpoint: k3-tui MODEL.", "k3-tui MODEL",
                 "<how> [use|load|start|run|open|switch to|get to|try] [another|the real|a different|the big|my own|the full] "
                 "model|<how> [use|load|start|run|open|switch to] [kimi k3|kimi|the real kimi]")),
    fact("what I can do", "explain k3-tui, add small numbers",
         "I can explain k3-tui: its panes, commands, presets and words. I can add small numbers, too. Ask me what the ring is.",
         "explain k3-tui",
         "your [skills|abilities|knowledge]|what you can do",
         "what can you do[ for me| here|]|what can i [ask you|ask|ask here|do here|do with you|ask about]|"
         "how can you help[ me|]|[can|could] you help[ me|]|help me|i need help|what do you know|"
         "what [should|could|shall] i ask[ you|]|give me [an example question|an example|a question|an idea]|"
         "what are you good [at|for]|what questions can [i ask|you answer]|what topics do you know|"
         "what now|what do i do now|where do i [start|begin]|how do i [start|begin]|what should i [do|try]|"
         "what do you [talk|know] about|tell me what you can do|"
         "[suggest|propose] [something|a question]",
         more=("Try: what is an expert? Or: how do I use less memory? Or: what is 17 plus 25?", "Try")),
    fact("my training", "minutes on one core, by a recipe in the repository",
         "I was trained in about an hour on one processor core, by the recipe in assets/demo.",
         "assets/demo",
         "your [training|recipe|origin|creation]|the training of the demo|the recipe|your training data",
         "[how|when|where] were you [made|trained|built|created|born]|who [made|trained|built|created|programmed] you|"
         "who is your [maker|creator|author|father]|can i train you|where do you come from|"
         "what were you trained [on|with]|how did you learn [this|that|it|to speak|all this]|what is your training data|"
         "[how long|how] did your training take|how does [your|the] training work|"
         "<how> [train|build|make|change|improve] [you|the demo|the demo model|my own demo]",
         more=("The recipe makes questions from templates, trains a tokenizer, then the network, and exports it.", "templates"),
         why=("A small model that is trained at home can be shipped inside the program.", "inside the program")),
    fact("my limits", "I know the manual only and can be wrong",
         "I am small. I know the manual of k3-tui and a little small talk, nothing else, and I can be wrong.",
         "can be wrong",
         "your [limits|mistakes|errors|limitations|weaknesses]|the limits of the demo",
         "can you be wrong|[can|should] i [trust|believe|rely on] [you|that|this|your answers]|"
         "do you [make mistakes|ever make mistakes|hallucinate|lie|make things up]|"
         "are [your answers|you] [right|correct|reliable|always right|sure|certain]|"
         "what can you not do|what can't you do|what do you not know|is [that|this|it] [true|right|correct|really true]|"
         "[that|this|it] is [wrong|not right|not true|false|nonsense|not correct]|you are [wrong|mistaken|not right]|"
         "really|are you [sure|serious|certain]|you made a mistake|i do not believe you|"
         "how [good|reliable|accurate|correct] are you|why are you so [small|limited|bad]",
         more=("I have 4 million parameters and learned from templates. Ask in other words if I go wrong.", "other words"),
         why=("I have 4 million parameters. That is too small to know the world.", "too small")),
    fact("my layers", "6, of KDA and MLA",
         "I have 6 layers of both kinds, KDA and MLA. The last two are MLA, as in Kimi K3.",
         "6 layers",
         "your [layers|structure|architecture|network]|the layers of the demo|the demo's layers",
         "how many layers [do you have|does the demo have|have you|has the demo|are in you]|how are you built|"
         "what is inside [you|the demo]|what are you made of|how do you work inside|how deep are you",
         more=("The first layer is dense, the others have experts. Three residual blocks join them.", "dense")),
    fact("my experts", "32 a layer, 4 chosen",
         "I have 32 experts in a layer, and 4 of them are chosen for each token.",
         "32|4",
         "your [experts|own experts|expert count]|the experts of the demo|the demo's experts",
         "how many experts [do you have|does the demo have|have you|has the demo|do you use|are in you]|"
         "do you have experts|do you use experts",
         why=("I have the parts that Kimi K3 has, only smaller, so that the program is shown as it is.", "only smaller")),
    # The screen.
    fact("the screen", "think pane, response pane, message line, telemetry",
         "The screen has a think pane, a response pane, the message line and telemetry.",
         "response pane|message line",
         "the [panes|screen|layout|display|window|user interface|interface|ui]|[panes|windows|parts|areas] on the screen|"
         "the [parts|panes|areas] of the screen",
         "what [do i see|is shown|is] on the screen|how is the screen [laid out|divided|built]|"
         "[how many|which|what] [panes|windows|parts|boxes|areas] [are there|does the screen have|do i see]|"
         "what are [all |][these|the|those] [boxes|panes|windows|areas]|what is all this on the screen",
         change=("F2 sizes the thinking, F3 gives one pane all the room, F4 changes the telemetry.", "F3",
                 "<how> [make|get] [a pane|one pane|the pane|the panes] [larger|bigger|full|smaller]|"
                 "<how> [resize|enlarge|zoom] [a pane|the panes|one pane]"),
         more=("Tab goes to the next pane. At 120 columns and more the telemetry stands at the side.", "120 columns")),
    fact("thinking", "written before the answer, shown in the think pane",
         "Thinking is what the model writes for itself before it answers. The think pane shows it.",
         "before it answers",
         "thinking|the thinking|the think [pane|channel|window|box]|the [thoughts|reasoning|reasoning channel|upper pane]|"
         "think pane|think channel|reasoning|chain of thought|your [thoughts|thinking|reasoning]",
         "where [do i see|are|can i read] the [thoughts|thinking|reasoning]|what do you [do|write] when you think|"
         "what are you doing when you think|which pane shows the thinking|what is the [text|part] [above|at the top]|"
         "what is in the upper [pane|part|half|box]",
         why=("A model that thinks first makes fewer mistakes. Sums show it best.", "fewer mistakes",
              "why do you think[ first| before you answer| so much| at all|]|why does [it|the model] think[ first| so long|]|"
              "what is the use of thinking first|must you think"),
         change=("F2 changes the size of the thinking. /effort and /think say how much there is.", "F2",
                 "<how> [hide|show|fold|unfold|collapse|shrink|enlarge] the [thinking|thoughts|think pane|reasoning]"),
         more=("It is kept in the history, and /copy think copies it.", "/copy think")),
    fact("the response pane", "the answer, as markdown",
         "The response pane shows the answer, as markdown while it comes.",
         "markdown",
         "the response[ pane| window| channel|]|the answer [pane|channel|window]|response [pane|channel]|the lower pane|markdown",
         "where [do i see|is|can i read] the answer|where does the answer [appear|come|stand]|which pane shows the answer|"
         "is the answer markdown|does it show markdown",
         change=("F5 or /raw shows answers as they came, or as markdown again.", "F5",
                 "<how> [see|show|get] [the raw text|raw answers|answers as they came|the markdown source]|"
                 "[raw|the raw text|raw text|/raw|plain text answers]|<how> turn off markdown")),
    fact("telemetry", "trunk rate, ring slots, experts retained, expert drops",
         "Telemetry shows four facts: trunk GB/s, ring slots in flight, experts retained and expert drops.",
         "trunk GB/s|expert drops",
         "telemetry|the telemetry[ pane| rows|]|the [numbers|figures] [on the screen|at the bottom|below|at the side|down there]|"
         "the status [line|bar|rows]",
         "what do [the|these|those|all the] [numbers|figures|values] [mean|show|say]|what does the telemetry show|"
         "which [numbers|figures] are shown|what is measured|what are [the|these|all these] [numbers|figures]",
         change=("F4 shows as much telemetry as fits, everything, or nothing.", "F4",
                 "<how> [hide|show|see more|turn off|enlarge] [telemetry|the telemetry|the numbers|the figures]"),
         why=("It shows what the time goes to: the disk, or the computation.", "time goes to"),
         more=("It also has the layer, the memory, and what the last token waited for.", "waited for")),
    fact("the trunk rate", "how fast the trunk is read",
         "Trunk GB/s is how many gigabytes of the trunk are read from disk in a second.",
         "gigabytes",
         "trunk gb/s|the trunk rate|gb/s|the trunk speed|the reading rate|gb per second|the read speed",
         "how fast is the trunk read|what does gb/s mean|how fast does it read[ from disk|]|is the disk fast enough",
         more=("It is the mean of the last second. A dash means that it is not known yet.", "last second")),
    fact("experts retained", "the share of experts that need not be read",
         "Experts retained is the share of the experts asked for that were in memory already.",
         "in memory already",
         "experts retained|retained|retained experts|the retained experts|the hit rate|cache hits|retention",
         "what does retained mean|how many experts were in memory|why is retained at 0|what is the percent of experts",
         why=("An expert that is in memory need not be read. That saves time.", "saves time"),
         change=("Give the experts more memory: /cache GB, or a larger preset.", "/cache")),
    fact("expert drops", "experts that could not be read",
         "An expert drop is an expert that could not be read from disk, even after three tries.",
         "could not be read",
         "expert drops|drops|a drop|an expert drop|a dropped expert|dropped experts|drop|the drops",
         "what does [drop|drops|dropped] mean|what happens [when|if] an expert [cannot be read|is missing|fails]|"
         "is an expert drop [bad|dangerous|a problem]|what if a read fails|should i worry about drops",
         more=("The turn ends there, and a bar says so. Every token written so far is right.", "turn ends"),
         why=("A damaged file or a failing drive. Check the drive and the files.", "failing drive")),
    fact("slots in flight", "slots that are being read now",
         "Ring slots in flight says how many slots of the ring are being filled from disk right now.",
         "right now",
         "[ring |]slots in flight|in flight|ring slots in flight|the slots in flight",
         "what does in flight mean|how many slots are being read",
         more=("When it is never 0 while the model works, the readers are ahead.", "readers")),
    # Keys and commands.
    fact("the keys", "Enter sends, Esc stops, F1 helps",
         "Enter sends, Esc stops an answer, Ctrl-T changes the thinking, and F1 shows all keys.",
         "Enter|F1",
         "the [keys|hotkeys|shortcuts|key bindings|keyboard]|[keys|shortcuts|hotkeys|keyboard shortcuts|key bindings]|"
         "function keys",
         "which keys [are there|can i press|do what|work|should i know]|what keys [are there|can i use]|"
         "what does [f1|esc|enter|ctrl-t|escape] do|<how> send a message|what can i press|is there a shortcut",
         more=("F2 sizes the thinking, F3 one pane alone, F4 telemetry, F5 markdown or raw.", "F5")),
    fact("a new line", "Alt-Enter or Ctrl-J",
         "Alt-Enter or Ctrl-J starts a new line in the message.",
         "Alt-Enter",
         "a new line|new line|newline|a line break|multiline input|several lines",
         "<how> [write|type|enter|make|insert|get] [several lines|a new line|a second line|two lines|a line break|more lines|"
         "a multiline message]|enter sends too early",
         more=("Ctrl-G opens the message in your own editor.", "Ctrl-G",
               "<how> [use|open] [my|an|the] editor|ctrl-g|the editor|external editor|my own editor")),
    fact("scrolling", "PageUp and PageDown",
         "PageUp and PageDown read back, and End follows the text again.",
         "PageUp",
         "scrolling|scroll|page up|pageup|reading back",
         "<how> [scroll|scroll up|scroll back|read back|see old text|see older messages|go up|go back up|see the text above|"
         "read the beginning]|i cannot see the [start|beginning|rest]|<how> [go|get] [back |]to the [end|bottom]",
         more=("Tab chooses the pane. There Up, Down and Home work, too.", "Tab")),
    fact("stopping an answer", "Esc, and what is there is kept",
         "Esc stops the answer. What was written so far is kept.",
         "Esc stops",
         "[cancel|cancelling|interrupting|stopping|aborting][ an answer| a turn|]|an interrupted [turn|answer]|interruption",
         "<how> [stop|cancel|interrupt|abort|break|end|halt|kill] [an answer|the answer|you|a turn|the turn|it while it writes|"
         "the model|the output|the text|this answer|generation]|stop[ the answer| writing| it| now| talking|]|cancel that|"
         "what happens [if|when] i [interrupt|stop|cancel] [it|you|an answer]|shut up|you write too much|"
         "the answer is too long",
         more=("/continue goes on with an answer that was stopped.", "/continue")),
    fact("/pause", "it halts the answer, /continue goes on",
         "/pause halts the running answer between two layers, and /continue goes on.",
         "/pause",
         "/pause|/continue|the [pause|continue] command|pause|slash pause|pausing",
         "<how> [pause|halt for a while|hold|suspend] [an answer|the answer|the model|it|you]|wait a moment|"
         "<how> [continue|resume|go on with] [an answer|the answer|a stopped answer|a cut answer|after a pause]",
         why=("The disk and the processor are free for other work meanwhile.", "meanwhile")),
    fact("/quit", "it leaves the program",
         "/quit leaves the program. What was answered so far is kept.",
         "/quit",
         "/quit|/exit|the [quit|exit] command|quit|exit|slash quit|leaving|quitting",
         "<how> [leave|quit|exit|close|end|stop|shut down|get out of|terminate|finish] [the program|this|it|k3-tui|"
         "this program|here|the app|the application|this app|the chat|everything]|<how> [quit|exit|leave|get out]|"
         "let me out|i want out|i want to [leave|quit|go]|close the program|end the program",
         more=("Ctrl-C twice leaves, too, and Ctrl-D when the message is empty.", "Ctrl-D")),
    fact("/help", "it shows commands and keys",
         "/help or F1 shows all commands and keys.",
         "/help",
         "/help|the help command|slash help|f1|the help[ screen| page| text|]|the slash commands|commands|the commands|"
         "slash commands|[a|the] list of [all |][commands]",
         "[which|what] commands [are there|exist|can i use|do you have|can i type|may i use|work here]|"
         "[list|show|show me|give me|print] [the|all|all the|your] commands|what can i type[ here|]|"
         "<how> [see|find|get|open|list] [help|the help|all commands|the commands|the manual]|where is the [help|manual]|"
         "i forgot the commands",
         more=("Tab completes a command: type a slash and press Tab.", "Tab completes",
               "<how> complete a command|tab completion|autocomplete|command completion")),
    fact("/reset", "it forgets the conversation",
         "/reset forgets the conversation and begins a new one.",
         "/reset",
         "/reset|the reset command|reset|slash reset|a [new|fresh] [chat|conversation]",
         "<how> [start|begin|open|make] [again|anew|afresh|over|from scratch|from the beginning|a new conversation|"
         "a new chat|a fresh chat]|<how> [clear|delete|forget|wipe|erase|reset|empty] [the chat|the conversation|this chat|"
         "everything|all|our chat|what we said|the screen]|forget [everything|all|this|what i said]|"
         "let us start over|new chat|new conversation|clear",
         more=("A running answer is stopped first. The system message stays.", "system message")),
    fact("/regen", "it answers the last message anew",
         "/regen answers the last message anew.",
         "/regen",
         "/regen|the regen command|regen|slash regen|regenerate|regenerating",
         "<how> [get|have|make|see] [another|a new|a different|a better|a second] answer|try again|answer again|"
         "<how> [regenerate|redo|repeat] [the answer|an answer|it|the last answer]|retry|another answer|give me another answer",
         more=("Greedy answers come out the same. Set /temp first to get another.", "Greedy")),
    fact("/undo", "it takes the last message back",
         "/undo takes your last message and its answer back. /edit opens it in the editor.",
         "/undo",
         "/undo|/edit|the [undo|edit] command|undo|slash undo|slash edit",
         "<how> [undo|take back|correct|edit|change|fix|remove|delete] [the last message|my last message|my message|"
         "what i wrote|what i said|my question|my last question|the last question]|i made a typo|i sent it too early|"
         "i want to rewrite my question",
         more=("What was taken away is kept in a file beside the history.", "beside the history")),
    fact("/effort", "low, high or max thinking",
         "/effort low, high or max says how much to think, from the next answer on.",
         "/effort",
         "/effort|effort|the effort[ level| command|]|thinking effort|slash effort|effort levels|the thinking effort",
         "<how> [make you think|let you think|think|get you to think] [less|more|longer|shorter|harder|a bit less]|"
         "[think|reason] [less|more|longer|shorter|harder]|you think too [long|much|little]|"
         "<how> [change|set|lower|raise|reduce|increase] [the effort|your effort|the thinking effort|how much you think|"
         "the amount of thinking]|[which|what] effort levels [are there|exist]|<how> get [quicker|shorter] thinking",
         more=("Ctrl-T goes through off, low, high and max.", "Ctrl-T"),
         why=("Every token of thinking takes time. Low effort answers sooner.", "sooner")),
    fact("/think", "it turns thinking off or on",
         "/think off turns thinking off, /think on turns it on again.",
         "/think off",
         "/think|the think command|/think off|/think on|slash think|no-think mode|no-think|no think|--no-think",
         "<how> [turn off|switch off|disable|stop|skip|turn on|switch on|enable] [thinking|the thinking|the thoughts|"
         "your thoughts|reasoning|the reasoning]|<how> [turn|switch] [thinking|the thinking|the thoughts|reasoning] [off|on]|"
         "[can you |please |]answer without thinking|[do not|don't] think|stop thinking|without thinking|no thinking|"
         "answer at once|answer directly",
         why=("Without thinking the answer comes at once, but it is wrong more often.", "wrong more often")),
    fact("/system", "what holds for the whole conversation",
         "/system TEXT sets what holds for the whole conversation. /system off removes it.",
         "/system",
         "/system|the system [message|prompt|command]|system [message|prompt]|--system|slash system",
         "<how> [tell|say to] the model how to behave|<how> [give|set|write|change|remove] [a|the] [system message|"
         "system prompt|role|standing order]|<how> make [you|the model] [speak|behave|act] [differently|like a pirate|nicely]|"
         "custom instructions",
         more=("All that was said is read anew after a change. /reset keeps it.", "read anew")),
    fact("sampling", "the most likely token, unless a temperature is set",
         "The most likely token is taken, unless you set /temp, /top-p or /seed.",
         "most likely|/temp",
         "sampling|temperature|the temperature|--temperature|greedy|the sampler|top-p|/temp|/top-p|/seed|the seed|top-k|"
         "greedy decoding|randomness",
         "is the answer always the same|why is the answer always the same|why do you always say the same|"
         "<how> [get|make] [different|more random|more creative|random|varied] answers|"
         "how [is|are] [the next token|the next word|tokens|words] chosen",
         change=("/temp 0.7 draws more freely, /temp 0 takes the most likely token again.", "/temp 0.7"),
         why=("Greedy answers can be repeated: the same question, the same answer.", "repeated")),
    fact("/search", "it finds a text",
         "/search TEXT finds a text. F7 goes to the one before, F8 to the next.",
         "/search",
         "/search|the search command|search|searching|slash search|f7|f8|find",
         "<how> [search|find|look for] [a text|a word|something|text|a phrase|an old answer][ in the chat| in the conversation| here|]|"
         "<how> search[ in the chat|]"),
    fact("/copy", "it copies the last answer",
         "/copy copies the last answer. /copy think copies the thinking, /copy all everything.",
         "/copy copies",
         "/copy|the copy command|copy|copying|the clipboard|clipboard|slash copy",
         "<how> copy [an answer|the answer|the last answer|text|the text|code|the code|a block of code|it]|"
         "<how> [put|get] [it|the answer|text] [into|to] the clipboard",
         more=("/copy 1 copies the first block of code. The text is also saved as copied.txt.", "copied.txt")),
    fact("/export", "it writes the conversation to a file",
         "/export FILE writes the conversation as markdown, to be read. /save FILE writes it to be loaded.",
         "/export",
         "/export|/save|the [export|save] command|export|exporting|slash export|slash save",
         "<how> [save|export|write|print|store] [the conversation|the chat|our chat|this chat|this conversation|everything] "
         "[to|in|into|as] [a file|markdown|a text file]|<how> [export|save] [the chat|this|it|our conversation]"),
    fact("/sessions", "the conversations that are kept",
         "/sessions lists the conversations that are kept, and Enter goes over to one.",
         "/sessions",
         "/sessions|/load|sessions|the sessions command|[old|earlier|kept|other|past|previous] [chats|conversations]|slash sessions",
         "<how> [load|open|find|see|continue|resume|go back to|return to|list] [an old|an earlier|another|a previous|my last|"
         "yesterday's|the last] [chat|conversation]|<how> [continue|go on] [tomorrow|later|where i stopped]|"
         "<how> switch [chats|conversations]|where are my old [chats|conversations]",
         more=("/rename NAME gives a conversation a name, /fork goes on in a copy.", "/rename",
               "<how> [name|rename] [a|the|this] [chat|conversation]|/rename|/fork|<how> [copy|fork|branch] [a|the|this] "
               "[chat|conversation]")),
    fact("the history", "JSON lines in a file",
         "The history is a file of JSON lines, one message a line. It is never half written.",
         "JSON lines",
         "the history[ file|]|history|--history|the chat history|the history of the chat|the chat file",
         "where [is|are] [my conversation|the conversation|my chat|the chat|my messages|chats] [saved|stored|kept]|"
         "[is|are] [my conversation|the conversation|my chat|the chat|my messages|chats] [saved|stored|kept|lost]|"
         "how are messages [stored|saved]|does it [save|keep|store|remember] [my chat|chats|the conversation|what i say]|"
         "is anything lost [after a crash|when it crashes|when the power fails|]|what if [it|the program|the computer] crashes",
         change=("Name a file with --history FILE. Else it is in the data folder, under conversations.", "--history FILE"),
         why=("So a conversation can go on where it was, even after a crash.", "after a crash")),
    fact("/stats", "figures of the session",
         "/stats shows the figures of this session.",
         "/stats",
         "/stats|the stats command|stats|statistics|slash stats|the statistics",
         "<how> [see|show|get] [statistics|the statistics|stats|the figures of the session|the totals]|"
         "how many tokens did [i use|we write|you write]"),
    fact("themes", "auto, dark, light, contrast, mono",
         "/theme sets the looks: auto, dark, light, contrast or mono.",
         "/theme",
         "/theme|themes|theme|the [theme|colours|colors|looks|theme command]|colours|colors|dark mode|light mode|the dark theme",
         "<how> [change|set|choose|switch|turn off] [the colours|the colors|the theme|the looks|dark mode|to dark mode|colors]|"
         "it is too [dark|bright]|i cannot read the [colours|colors]|is there a dark mode|which themes are there",
         more=("With NO_COLOR set there are no colours, and nothing is lost.", "NO_COLOR")),
    fact("settings", "a file, opened by /settings",
         "/settings opens the settings file in the editor. It holds from the next start.",
         "/settings",
         "/settings|settings|the settings[ file| command|]|slash settings|the config[ file|]|configuration|preferences|options|"
         "settings.toml|the configuration",
         "<how> [change|edit|open|find|see] [the settings|settings|my settings|options|the options|the config|preferences]|"
         "where [are|is] the [settings|config|options|settings file]|<how> make [it|that|a setting] permanent|"
         "what can be configured",
         more=("Every setting is explained in the file. Flags win over it.", "Flags win")),
    # Memory plans.
    fact("presets", "ultra, laptop, desktop, workstation, server, max, auto",
         "The presets are ultra, laptop, desktop, workstation, server, max and auto. Each is a memory plan.",
         "ultra|workstation",
         "presets|the presets|a preset|preset|--preset|memory presets|/preset|the preset[ command| flag|]|memory plans",
         "[which|what|how many] [presets|memory plans] [are there|exist|can i use|do you have|can i choose]|"
         "[list|name|show|show me|name me|tell me] [the|all|all the|your] presets|"
         "what are the names of the presets",
         change=("Type /preset NAME, or start with --preset NAME.", "/preset NAME",
                 "<how> [change|choose|set|switch|select|use|pick] [a|the|another] [preset|memory plan]"),
         why=("More memory means fewer bytes read for each token. A preset says how much to take.", "fewer bytes"),
         more=("All presets give the same tokens. Only speed and memory differ.", "same tokens",
               "does a preset change the answer|do presets change the answers|does less memory give worse answers")),
    fact("preset ultra", "the smallest plan, under 1 GB",
         "Preset ultra is the smallest plan. It runs Kimi K3 in less than 1 GB of memory.",
         "smallest",
         "ultra|preset ultra|the ultra preset|--preset ultra|the smallest [plan|preset]|ultra mode|/preset ultra",
         "which [preset|plan] is [the |][smallest|for little memory|the least]|<how> use [the least|less|little|very little] "
         "[memory|ram]|which preset uses [the |][least|less] memory|i have [very |]little [memory|ram]|"
         "i have only [1|2|4] gb",
         more=("Nothing is pinned there, and the expert cache has four slots.", "four slots"),
         why=("It is for machines with little memory. It reads everything for each token, so it is slow.", "slow")),
    fact("preset laptop", "3 GB for the trunk, 1 GB for experts",
         "Preset laptop is for 8 to 16 GB: 3 GB for the trunk and 1 GB for experts.",
         "8 to 16 GB",
         "laptop|preset laptop|the laptop preset|--preset laptop|/preset laptop|laptop mode",
         "which preset is for [a laptop|8 gb|16 gb|my laptop]|i have a laptop|can i run it on [a|my] laptop|"
         "i have [8|16] gb[ of ram| of memory|]"),
    fact("preset desktop", "about 32 GB",
         "Preset desktop takes about 32 GB in all: 28 GB for the trunk, 2 GB for experts.",
         "about 32 GB",
         "desktop|preset desktop|the desktop preset|--preset desktop|/preset desktop|desktop mode",
         "which preset is for [a desktop|32 gb|48 gb|my desktop]|i have a desktop[ computer|]|"
         "i have [32|48|64] gb[ of ram| of memory|]"),
    fact("preset workstation", "about 96 GB",
         "Preset workstation takes about 96 GB in all: 90 GB for the trunk, 4 GB for experts.",
         "about 96 GB",
         "workstation|preset workstation|the workstation preset|--preset workstation|/preset workstation",
         "which preset is for [a workstation|96 gb|100 gb]|i have a workstation|i have [96|100|112] gb[ of ram| of memory|]"),
    fact("preset server", "the whole trunk in memory",
         "Preset server keeps the whole trunk in memory, so that only experts are read. It takes 126 GB.",
         "whole trunk",
         "preset server|the server preset|--preset server|/preset server|server mode|server",
         "which preset is for [a server|128 gb|a big server]|i have [128|160|192] gb[ of ram| of memory|]|i have a server"),
    fact("preset max", "the largest plan",
         "Preset max is the largest plan: the whole trunk and 109 GB of experts, about 222 GB in all.",
         "largest",
         "preset max|the max preset|--preset max|/preset max|the largest [plan|preset]|the biggest [plan|preset]",
         "which [preset|plan] is the [largest|biggest|fastest]|i have [very much|a lot of|lots of|plenty of] [memory|ram]|"
         "<how> use [all my|all|as much] [memory|ram]|i have [256|384|512] gb[ of ram| of memory|]"),
    fact("preset auto", "it fits the plan to this machine",
         "Preset auto is the default. It looks at the memory of your machine and makes a plan that fits.",
         "default|fits",
         "auto|preset auto|the auto preset|--preset auto|the default preset|/preset auto|auto mode",
         "which preset is [the default|used|best|right for me|best for me|good for me|right]|what is the default preset|"
         "[which|what] preset [should i use|do i need|shall i take|do you recommend|is recommended|should i choose]"),
    fact("/tune", "memory plans to choose from",
         "/tune shows memory plans, what they take and what they cost. Enter takes one.",
         "/tune",
         "/tune|the tune command|tune|tuning|slash tune",
         "<how> [compare|see|choose from] [the |][memory plans|plans]|<how> tune [it|the memory|the plan]|"
         "what would another preset cost",
         more=("/trunk, /cache and /ring set the parts of a plan by hand.", "by hand",
               "/trunk|<how> set [the parts of a plan|the memory by hand|the trunk budget]|the trunk budget|--trunk-gb")),
    fact("memory", "from under 1 GB, more is faster",
         "Less than 1 GB of memory is enough for Kimi K3. More memory makes it faster.",
         "Less than 1 GB",
         "[the |]memory|ram|memory [use|usage|needs|requirements]|the memory it [needs|uses]|main memory",
         "how much [memory|ram] [do i need|does it need|does it use|is needed|does kimi k3 need|must i have|will it take]|"
         "is my [memory|ram] enough|do i need [a lot of|much|more] [memory|ram]|can i run it with [4|8|16] gb|"
         "is [4|8|16] gb enough|does it fit in memory|what if i have little memory",
         change=("Choose a preset, or set the parts with /trunk GB and /cache GB.", "/trunk GB",
                 "<how> [give it|use] more memory|<how> [limit|reduce] [memory|the memory|ram|memory use]"),
         why=("What is kept in memory need not be read from disk again.", "need not be read")),
    # The engine.
    fact("the trunk", "all weights that are read for every token",
         "The trunk is all the weights that are used for every token: everything but the routed experts.",
         "every token",
         "the trunk|trunk|trunk weights|trunks|the model's trunk",
         "[which|what] weights are [read|used|needed] for every token|what is [read|used] [for every token|every time]|"
         "what does trunk mean[ here|]|what does the trunk [consist of|contain]",
         more=("It comes from disk through the ring, segment by segment. A part of it can be pinned.", "segment by segment"),
         change=("/trunk GB sets the memory for the trunk, pins and ring together.", "/trunk GB"),
         why=("Attention, norms and the shared experts work on every token, so they are read each time.", "each time")),
    fact("the ring", "a few slots that readers fill ahead",
         "The ring is a few slots in memory. Readers fill the next slots from disk while one is computed on.",
         "slots|Readers",
         "the ring|ring|ring slots|slots|a slot|the slots|ring buffer|the ring buffer|the ring slots|rings",
         "what does the ring do|what [happens|is] [in|inside] the ring|what are the [ring |]slots for|what is a ring slot",
         why=("Reading and computing happen at the same time, so that the processor waits less.", "same time"),
         change=("/ring N sets the number of slots, or --trunk-ring N at the start.", "/ring N",
                 "/ring|--trunk-ring|more ring slots|<how> [get|have|use] more [slots|ring slots]"),
         size=("The ring has 4 slots unless you say otherwise. Two are the least to overlap.", "4 slots",
               "how many [ring |]slots [are there|has the ring|does the ring have|are in the ring]|the number of slots"),
         more=("A slot is empty, reading, ready or computing. Telemetry shows which.", "ready")),
    fact("a segment", "a run of rows, at most 32 MiB",
         "A segment is a run of weight rows that is read in one go.",
         "one go",
         "a segment|segments|segment|the segments|the word segment",
         "what is read in one go|into what [pieces|parts] is the trunk cut|how is the trunk cut",
         size=("A segment has at most 32 MiB.", "32 MiB"),
         why=("Large reads are the fastest way to use a drive.", "Large reads")),
    fact("the walk", "the list of segments in order of use",
         "The walk is the list of all segments in the order of use. It is the same for every token.",
         "order of use",
         "the walk|walk|the walk of segments|walks",
         "in [which|what] order [are|is] the [weights|trunk] read|what is the order of the segments",
         why=("The order is known before, so that readers can work ahead.", "known before")),
    fact("pinned segments", "loaded once and kept",
         "A pinned segment is loaded once and kept in memory. It need not be read again for each token.",
         "loaded once",
         "pinned|pins|pinned segments|a pinned segment|pinning|a pin|the pins",
         "what [stays|is kept] in memory|which part stays in memory|what does pinned mean",
         change=("A larger trunk budget pins more: /trunk GB, or a larger preset.", "pins more",
                 "<how> pin more[ segments|]"),
         why=("Every pinned byte saves one byte of reading for each token.", "saves one byte")),
    fact("streaming", "weights are read from disk for each token",
         "Streaming means that weights are read from disk for each token, just before they are used.",
         "just before",
         "streaming|streamed|streaming from disk|streamed segments|streamed weights|stream",
         "how can [such a big|a huge|so big a|this big] model run [here|at home|on my computer|on a small machine]|"
         "how does [it|a model|the model] fit [in memory|that is larger than memory|in so little memory]|"
         "how does it [run|work] with so little memory|why does it read from [disk|the drive]|"
         "why is the disk [busy|so busy|working]|why is there so much disk activity",
         why=("The model is larger than the memory, so it cannot stay there.", "cannot stay"),
         more=("The trunk is streamed through the ring, experts into a cache.", "into a cache")),
    fact("experts", "small networks, a few are chosen for each token",
         "Experts are small networks. A router chooses a few of them for each token, and only those are read.",
         "small networks",
         "experts|an expert|the experts|routed experts|expert networks|moe|mixture of experts|expert|a mixture of experts",
         "what [does an expert|do experts|do the experts] do|what are [all |][the|these] experts for|"
         "what is it that experts do",
         size=("Kimi K3 has 896 experts in a layer, and 16 of them are chosen for each token.", "896|16",
               "how many experts [are there|does kimi k3 have|are used|are chosen|per token|has kimi k3|has the model|work "
               "on a token|in a layer]|the number of experts|the expert count"),
         why=("A model can know much while only a small part works on each token.", "small part"),
         more=("They are stored in MXFP4, 4 bits a weight. Two shared experts see every token.", "shared experts")),
    fact("the router", "it chooses the experts",
         "The router scores all experts of a layer and chooses the best few for each token.",
         "scores",
         "the router|router|routing|a router|expert routing|the gate",
         "[who|what] chooses the experts|how are [the |]experts chosen|how does it [choose|pick|select] experts|"
         "which experts are used",
         why=("Only the chosen experts are read, which saves time.", "chosen experts")),
    fact("the expert cache", "experts that stay in memory",
         "The expert cache keeps experts in memory that are likely to be used again.",
         "likely",
         "the expert cache|expert cache|the cache|cache|caching|the cache of experts|/cache|--cache-gb",
         "which experts stay in memory|are experts [kept|cached]|does it cache experts",
         change=("/cache GB sets the memory for experts.", "/cache GB"),
         why=("About two in five experts are used again by the next token.", "two in five")),
    fact("a token", "a piece of a word",
         "A token is a piece of text, often a word or a part of one. The model writes one at a time.",
         "piece of text",
         "a token|tokens|token|the tokens",
         "what [are tokens made of|does the model write one at a time]|what does the model [write|make]|"
         "how many words is a token|is a token a word",
         more=("The tokenizer cuts text into tokens and gives each a number.", "tokenizer cuts",
               "the tokenizer|tokenizer|tokenization|how is text cut into tokens|what turns text into numbers")),
    fact("the context", "8192 positions in a chat",
         "The context is how many tokens a conversation can hold: 8192 unless you set --context.",
         "8192",
         "the context|context|the context [length|window|size|limit]|--context|positions|the positions",
         "how long can [a|the|our|this] [conversation|chat] [be|get|become]|how much can you [remember|keep in mind|hold]|"
         "how [long|big|large] is the context|how many tokens can [it|you] [hold|remember]|will you forget the beginning|"
         "what happens when the context is full|how many positions are there",
         change=("Start with --context N to plan for N positions.", "--context N"),
         why=("Every position takes some memory.", "Every position")),
    fact("KDA", "linear attention with a state of fixed size",
         "KDA is Kimi delta attention: it keeps a state of fixed size instead of all past tokens.",
         "delta attention",
         "kda|kimi delta attention|delta attention|kda layers|linear attention|the delta rule",
         "which attention has a fixed state|what does kda stand for",
         why=("Its memory does not grow with the length of the conversation.", "does not grow"),
         size=("Kimi K3 has 69 layers with KDA.", "69 layers", "how many kda layers [are there|has kimi k3]")),
    fact("MLA", "attention over a small latent of each token",
         "MLA is multi-head latent attention: it keeps a small latent of every past token.",
         "latent attention",
         "mla|multi-head latent attention|latent attention|mla layers|multi head latent attention",
         "which attention looks at past tokens|what does mla stand for",
         why=("It can look at every past token exactly, and its cache is small.", "every past token"),
         size=("Kimi K3 has 24 layers with MLA.", "24 layers", "how many mla layers [are there|has kimi k3]")),
    fact("the layers", "93 in Kimi K3",
         "Kimi K3 has 93 layers: 69 with KDA and 24 with MLA.",
         "93",
         "the layers|layers|the layers of kimi k3|a layer|kimi's layers|the layers of the model",
         "how many layers [are there|does kimi k3 have|does kimi have|has kimi k3|has the model]|how deep is kimi k3|"
         "how is kimi k3 [built|made|structured]|the [structure|architecture] of kimi k3"),
    fact("MXFP4", "4 bits a weight, one scale for 32",
         "MXFP4 is a number format of 4 bits with one scale for 32 weights. Experts are stored in it.",
         "4 bits",
         "mxfp4|the mxfp4 format|4 bit weights|fp4|quantization|quantisation|4 bits",
         "how are experts stored|[which|what] format do experts have|how many bits has [a weight|an expert weight]|"
         "are the weights quantized|is the model quantized",
         why=("Fewer bits are fewer bytes to read from disk.", "Fewer bits")),
    fact("bf16", "16 bits a weight",
         "bf16 is a number format of 16 bits. The trunk is stored in it.",
         "16 bits",
         "bf16|bfloat16|the bf16 format|16 bit weights|brain float",
         "how is the trunk stored|[which|what] format does the trunk have"),
    # Using it.
    fact("the disk", "a fast NVMe drive with 1.6 TB",
         "You need a fast NVMe drive with 1.6 TB free for Kimi K3.",
         "NVMe",
         "the [disk|drive]|[disk|hard drive|nvme|ssd|storage|drive]|disk space|the disk it needs|an ssd|the hard disk",
         "how much [disk|disk space|space|storage] [do i need|is needed|does it need|must be free]|"
         "[which|what] [drive|disk|ssd] [do i need|should i buy|is best|should i use]|does it need [an ssd|a fast disk|nvme]|"
         "do i need [a fast disk|an ssd|a special drive]|can i use [a usb drive|a hard disk|an external drive]",
         why=("The weights are read again for each token, so the drive sets the speed.", "sets the speed"),
         more=("k3 bench io FOLDER measures what a drive gives.", "k3 bench io",
               "<how> [measure|test|check] [my|the|a] [drive|disk|ssd]|is my [disk|drive|ssd] fast enough")),
    fact("a GPU", "none is needed",
         "No GPU is needed. k3-tui computes on the processor.",
         "No GPU",
         "a gpu|gpu|[the|a] graphics card|graphics cards|cuda|nvidia|the gpu|vram",
         "do i need [a gpu|a graphics card|an nvidia card|cuda|a special computer]|does it [use|need] [the gpu|a gpu|my gpu|cuda|"
         "a graphics card|nvidia]|can it use my [gpu|graphics card]|is a [gpu|graphics card] [required|needed|necessary|used]|"
         "does it run on [the cpu|a cpu]",
         why=("The disk is the limit, so that a faster processor would wait.", "would wait")),
    fact("speed", "the disk sets it",
         "Kimi K3 takes seconds or minutes for a token at home. The disk sets the speed.",
         "seconds or minutes",
         "the speed|speed|tokens per second|performance|the speed of kimi k3|the pace",
         "how [fast|quick] is [it|kimi k3|this|the model|k3-tui]|how long does [a token|an answer|it|one word] take|"
         "how many tokens [per|a] second|will it be [fast|slow]|is it [fast|slow]",
         why=("For each token many gigabytes come from the drive.", "many gigabytes"),
         more=("k3 plan MODEL says how many seconds a token takes on your drive.", "k3 plan MODEL")),
    fact("slow answers", "the disk is the limit",
         "If it is slow, the disk is the limit. Use a larger preset, a faster drive, or /effort low.",
         "larger preset|faster drive",
         "slowness|slow answers|the slow speed|long waits",
         "why is [it|this|everything|the answer|kimi k3] [so |too |]slow|it is [so |too |very |]slow|this is [so |too |]slow|"
         "<how> make [it|this|you|the model|answers] [faster|quicker|run faster]|<how> speed [it|this] up|"
         "what [do i do|can i do|to do] when it is slow|why do i [have to|need to|must] wait[ so long|]|make it faster|"
         "this takes [forever|too long|so long|ages]|it takes [too long|so long|forever]|too slow|faster please|"
         "why does it take so long",
         more=("Telemetry shows what the time goes to: trunk, experts or computing.", "computing")),
    fact("privacy", "all on this computer",
         "Everything runs on your computer. Nothing is sent away, and no internet is needed.",
         "your computer",
         "privacy|my [data|privacy]|data protection|the internet|offline use|security|the safety of my data",
         "is [it|this|my data|my chat] [private|safe|secure]|do you [send|share|collect|store] my data|"
         "does it [need|use|require] [the internet|internet|a connection|a network]|does it [work|run] [offline|without internet]|"
         "can it run offline|do i need [internet|the internet|an account|a connection]|is anything sent [away|to a server]|"
         "who can [read|see] [this|my messages|what i write]|are you online|are you spying on me|can i use it offline",
         why=("The model is on your own drive, so that no server is asked.", "own drive")),
    fact("the language", "Rust",
         "k3-tui is written in Rust.",
         "Rust",
         "the [programming language|source code|code|source]|rust|the programming language of k3-tui",
         "[which|what] [language|programming language] is [it|this|k3-tui] [written|made|programmed] in|"
         "in [which|what] language [are you|is it|is k3-tui] written|is it written in [rust|python|c]|what is it written in|"
         "is it [python|rust]"),
    fact("the licence", "Apache-2.0",
         "k3-tui and I are free under the licence Apache-2.0.",
         "Apache-2.0",
         "the [licence|license]|licence|license|apache|the price|the cost|apache-2.0",
         "is [it|this|k3-tui] [free|open source|open|free software]|how much does [it|this|k3-tui] cost|what does [it|this] cost|"
         "may i [use it at work|copy it|change it|sell it|share it]|do i have to pay|can i copy it|do i need a subscription|"
         "[which|what] [licence|license] [does it have|is it under|does this software have]",
         more=("You may use, change and share it, also at work.", "share it")),
    fact("k3", "the commands without a screen",
         "k3 is the program without a screen: k3 run, k3 chat, k3 plan, k3 presets, k3 pack and more.",
         "without a screen",
         "k3|the k3 [command|program]|the command line|the other program|the k3 commands|the command line program|cli",
         "<how> use it [without a screen|in a script|from a script|from the command line|in the shell]|"
         "is there a [command line|cli]|which subcommands are there|can it be scripted"),
    fact("k3 plan", "what a run would use",
         "k3 plan shows what a run would use, before it runs: memory, bytes read and seconds a token.",
         "k3 plan",
         "k3 plan|plan|the plan command|the plan|the memory plan|a plan",
         "<how> [see|know|check] [the memory before i run|how much memory it will use|what a run would use|if it fits]|"
         "[can|will] [my|this] [computer|machine|pc] run [it|kimi k3|this]|will it run on my [computer|machine|pc|laptop]|"
         "is my [computer|machine|pc] [good|fast|big] enough|<how> check my [machine|computer]",
         more=("k3 presets shows the same for every preset.", "k3 presets", "k3 presets|the presets command")),
    fact("k3 run", "one prompt, then done",
         "k3 run answers one prompt and ends. Give it --prompt and your text.",
         "--prompt",
         "k3 run|run|the run command|--prompt",
         "<how> [run|use|send] [one|a single|a] prompt[ from a script| from the shell|]|<how> ask [a single|one] question from "
         "[the shell|a script]",
         more=("--gen N says how many tokens, and --out FILE writes the result as JSON.", "--gen N")),
    fact("k3 chat", "a chat of plain lines",
         "k3 chat is a chat of plain lines, for a simple terminal, a pipe or a screen reader.",
         "plain lines",
         "k3 chat|the chat command|the plain chat|--plain|line by line|plain mode|screen readers",
         "is there a chat without panes|<how> chat [in a plain terminal|through a pipe|line by line]|"
         "does it work with a screen reader|i am blind"),
    fact("k3 pack", "the trunk in one file",
         "k3 pack writes the trunk into one file, so that it can be on another drive.",
         "k3 pack",
         "k3 pack|the pack command|a packed trunk|packing|pack|--trunk|two drives",
         "<how> use two drives|<how> [put|move] the trunk [on|to] another drive|can i use a second drive",
         why=("Trunk and experts then come from two drives at once, which is faster.", "two drives")),
    fact("getting Kimi K3", "a checkpoint folder of 1.56 TB",
         "Download the released checkpoint of Kimi K3, 1.56 TB. Then start k3-tui with its folder.",
         "released checkpoint",
         "the download|downloading|the checkpoint|a checkpoint|checkpoint|the model [files|folder]|installing kimi k3|"
         "installation",
         "where [do|can] i [get|find|download] [kimi k3|kimi|the model|the real model|the weights|the files]|"
         "<how> [get|download|install|obtain|fetch] [kimi k3|kimi|the model|the real model|the weights|the big model]",
         size=("The checkpoint has 96 files, 1.56 TB together.", "96 files",
               "how many files [has kimi k3|are there|has the checkpoint]|how many shards are there|shards|safetensors|"
               "[in which|which] files [are|hold] the weights")),
    fact("exit codes", "0 is done, 2 is refused",
         "Exit code 0 means done, 1 failed, 2 refused, 4 an expert could not be read, 5 interrupted.",
         "2 refused",
         "exit codes|the exit [codes|code|status]|exit code [0|1|2|3|4|5]|return codes|the return code",
         "what does it return to the shell|which exit codes are there|what does exit code [1|2|4|5] mean"),
    fact("threads", "--threads",
         "k3-tui uses all cores. Set another number with --threads. The answer stays the same.",
         "--threads",
         "threads|--threads|the number of [threads|cores]|cores|cpu cores|the processor|cpu",
         "how many [cores|threads] does it use|<how> [set|limit|use] [the threads|fewer cores|fewer threads|more threads]|"
         "does it use all cores|can it use fewer cores|<how> keep the processor free"),
    fact("waiting messages", "Enter while the model answers",
         "A message sent while the model answers waits in a queue. Up takes the last one back.",
         "queue",
         "the queue|waiting messages|queued messages|a queue",
         "can i [write|type|send] [while you answer|while it answers|during an answer|while you write]|"
         "what if i [write|send] [something|a message] while [you answer|it answers|you think]"),
]  # fmt: skip
