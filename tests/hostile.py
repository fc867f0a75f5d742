"""Texts that Markdown, Streamlit or a chart would make something of."""

import re

HOSTILE = (
    *("![a](//host/x.png)", "[text](//host)", "<img src=//host/x.png>", "<b>x</b><!-- y -->"),
    *("http://a.example/x", "see HTTPS://a.example, or www.b.example.", "a <http://a.example>"),
    *("me@a.example", "<me@a.example>", "mailto:me@a.example", "x@y.z@w.v", "wWw.a.example/(x)"),
    *(":material/home:", ":material_home:", ":red[x]", ":red-badge[x]", ":smile:", ":+1: a:b:c:d"),
    *(":streamlit:", "::leaf[x]", ":::box", ":color[x]{foreground=red}", "12:30:45", "http:/@/:x:"),
    *("$a$ and $$b$$", "5 $ and 6 $", "*e* _f_ **g** ~h~ ~~i~~", "a_b_c", "`code`", "```", "~~~"),
    *("---", "***", "===", "# head", "- a", "+ b", "* c", "> q", "1. one", "2) two", "- [ ] todo"),
    *(
        "    indented",
        "|a|b|\n|-|-|\n|c|d|",
        "a|b\n-|-\nc|d",
        "a\n===",
        "a\n\n# b",
        "a  \nb",
        "\ta",
    ),
    *(
        "&lt;b&gt; &amp; &#65;",
        "[^1]",
        "[^1]: note",
        "[x]: http://a.example",
        "\\",
        "\\*",
        "\\\\*a*",
    ),
    *("a -> b", "->", "<-> <-", "a -- b", ">= 1 <= 2 ~= 3", "--@x", "a@--", ":->:", "<-:a:"),
    *("@->@", "007", "C:\\temp", "50 % off!", "漢字 😀 é@é.example", "=1+1", "@SUM(A1)"),
    "'quoted' \"text\"",
)
FRAGMENTS = (
    *("http", "https", "://", "//", "www", ".", "a", "b.c", "@", ":", "::", "smile", "material"),
    *("/", "_", "*", "**", "`", "```", "~", "~~", "$", "$$", "[", "]", "(", ")", "!", "<", ">"),
    *("->", "<-"),
    *("--", "---", "=", "==", " ", "  ", "\n", "\n\n", "\t", "#", "1.", "2)", "+", "-", "\\", "&"),
    *("&lt;", "&amp;", "#65;", "|", "{", "}", "^", "x", "red", "color", "streamlit", '"', "'", "é"),
    *("漢", "😀", "\u200b", ",", ";", "?", "%", "mailto:", "+1", "0", "<b>", "<!--", "-->", "WWW"),
)


def render_text(text):
    """As a browser shows it: white space runs together, what cannot be shown is named."""
    unseen = r"[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
    return re.sub(unseen, lambda match: f"\\u{ord(match[0]):04x}", " ".join(text.split()))
