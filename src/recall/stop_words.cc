#include <algorithm>
#include <string>
#include <unordered_map>

#include "recall/language.h"

namespace tenuto {
namespace {

// By Language; kUnknown has none. Function words, question words, fillers of talk.
constexpr std::array<std::string_view, kLanguages> kStopWords = {
    "",
    "a about after again all also am an and any are as at be because been before being but by can "
    "could d did do does doing don doesn didn isn aren wasn weren won wouldn couldn shouldn down "
    "during each else ever few for from get give got had has have having he her here hers him his "
    "how however i if in into is it its just know least let ll m many maybe me might mine more most"
    " "
    "much must my no nor not now of off ok okay on once one only onto or other our out over own "
    "perhaps please quite rather re really s said same say shall she should since so some somebody "
    "someone something still such t tell than that the their them then there these they thing this "
    "those through to too under until up upon us ve very was we well were what whatever when where "
    "which while who whom whose why will with within without would yes yet you your yours "
    "mention mentioned remember recall repeat told",
    "aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis "
    "bist bitte da dabei daf\u00fcr dann daran darauf darum das dass davon dazu dein deine deinen "
    "deiner dem den denn der des dich die dies diese diesem diesen dieser dieses dir doch dort du "
    "durch ein eine einem einen einer eines einmal er es etwas euch f\u00fcr gab gibt hab habe habe"
    "n "
    "hast hat hatte hatten her hier hin ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist "
    "ja jede jedem jeden jeder jedes jene jemand jetzt kann kannst kein keine keinen k\u00f6nnen "
    "k\u00f6nnte machen mal man mein meine meinem meinen meiner mich mir mit muss m\u00fcssen nach "
    "nein nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit "
    "sich sie sind so soll sollte sondern um und uns unser unsere unter viel viele vom von vor "
    "wann war waren warum was wegen weil welche welchem welchen welcher welches wem wen wenn wer "
    "werde werden wessen wie wieder wieso will wir wird wirst wo wof\u00fcr woher wohin wollte wurd"
    "e "
    "wurden zu zum zur erw\u00e4hnt erz\u00e4hlt gesagt wiederhole zwar \u00fcber \u00fcberhaupt",
    "a ai aie as au aucun aussi autre aux avait avec avez avoir avons c ce cela ces cet cette "
    "ceux chez ci comme comment d dans de depuis des donc dont du elle elles en encore entre es "
    "est et eu eux fait faire faut fois font fut il ils j je jusqu l la le les leur leurs lors lui "
    "m ma mais me m\u00eame mes moi moins mon n ne ni non nos notre nous on ont ou o\u00f9 par parc"
    "e "
    "pas peu peut plus plut\u00f4t pour pourquoi qu quand que quel quelle quelles quels qui quoi s "
    "sa sans se sera ses si sien son sont sous sur t ta te tes toi ton tous tout toute toutes "
    "tr\u00e8s tu un une va vais veux voici voil\u00e0 vos votre vous vu y \u00e0 \u00e7a "
    "\u00e9tait \u00eatre \u00eates dit mentionn\u00e9 r\u00e9p\u00e8te rappelle racont\u00e9",
    "a al algo alguien alg\u00fan ante antes aqu\u00ed as\u00ed aunque cada como con "
    "cu\u00e1l cu\u00e1les cu\u00e1ndo cu\u00e1nto c\u00f3mo de del desde donde d\u00f3nde dos el "
    "ella ellas ellos en entre era eran es esa ese eso esta estaba estar este esto estos est\u00e1 "
    "est\u00e1n fue fueron ha haber hab\u00eda hacer han hasta hay he hoy la las le les lo los mas "
    "me mi mis mucho muy m\u00e1s nada ni no nos nosotros nuestra nuestro o os otra otro para pero "
    "poco por porque pues que qui\u00e9n qui\u00e9nes qu\u00e9 se ser si sido sin sobre son su sus "
    "s\u00ed tambi\u00e9n tan te tener ti tiene tienes todo todos tu tus t\u00fa un una uno unos "
    "usted ya yo \u00e9l",
    "a abbia abbiamo ad agli ai al alla alle allo anche ancora avere aveva c che chi ci ci\u00f2 "
    "come con cosa cui d da dai dal dalla dalle de dei del della delle dello di do dove e ecco ed "
    "era erano essere fa fatto fra gi\u00e0 gli ha hai hanno ho i il in io l la le lei li lo loro "
    "lui ma me mi mia mie miei mio molto ne nei nel nella nelle no noi non nostra nostro o ogni "
    "per perch\u00e9 per\u00f2 pi\u00f9 poi qual quale quali quando quanta quanto quasi quella "
    "quelle quelli quello questa queste questi questo qui s se sei si sia siamo sono sta stata "
    "stato su sua sue sugli sui sul sulla suo suoi s\u00ec tra tu tua tue tuo tutti tutto un una "
    "uno v vi voi \u00e8",
    "a ainda algo algu\u00e9m ao aos aquela aquele aquilo as assim at\u00e9 com como cada da das "
    "de dela dele depois do dos e ela elas ele eles em entre era eram essa esse esta estava este "
    "estou est\u00e1 est\u00e3o eu foi foram fosse havia h\u00e1 isso isto j\u00e1 lhe mais mas me "
    "mesmo meu meus minha minhas muito na nas nem no nos nossa nosso n\u00e3o n\u00f3s o onde os ou"
    " "
    "para pela pelo pode por porque qual quais quando quanto que quem se sem ser seu seus sim "
    "sobre sou sua suas s\u00e3o s\u00f3 tamb\u00e9m te tem tenho ter teu tinha toda todo tu tua um"
    " "
    "uma umas uns voc\u00ea voc\u00eas \u00e0 \u00e9",
    "aan al alles als altijd andere ben bij d daar dan dat de deze die dit doch doen door dus een "
    "eens en er ge geen geweest haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik "
    "in is ja je jij jou jouw kan kon kunnen maar me meer men met mij mijn moet na naar niet niets "
    "nog nu of om omdat onder ons onze ook op over reeds te tegen toch toen tot u uit uw van veel "
    "voor waar waarom wanneer want waren was wat we wel welke werd wezen wie wij wil worden wordt "
    "zal ze zelf zich zij zijn zo zonder zou",
    "alla allt att av blev bli blir d\u00e4r d\u00e5 den denna deras dess dessa det detta dig din "
    "dina ditt du d\u00f6 efter ej eller en er ett finns f\u00f6r fr\u00e5n ha hade han hans har "
    "hade henne hennes hon honom hur h\u00e4r i icke inte jag ju kan kunde man med mellan men mig "
    "min mina mitt mot mycket ni nu n\u00e4r n\u00e5gon n\u00e5got och om oss p\u00e5 samma sedan "
    "sig sin sina sitta sj\u00e4lv skulle som s\u00e5 till under upp ut utan vad var varf\u00f6r "
    "vara vem vi vid vilka vilken vilket v\u00e5r \u00e4n \u00e4r \u00e5t \u00f6ver",
    "\u0430 \u0431\u0435\u0437 \u0431\u044b \u0431\u044b\u043b \u0431\u044b\u043b\u0430 "
    "\u0431\u044b\u043b\u0438 \u0431\u044b\u043b\u043e \u0431\u044b\u0442\u044c \u0432 "
    "\u0432\u0430\u043c \u0432\u0430\u0441 \u0432\u043e \u0432\u043e\u0442 \u0432\u0441\u0435 "
    "\u0432\u044b \u0433\u0434\u0435 \u0434\u0430 \u0434\u043b\u044f \u0434\u043e \u0435\u0433"
    "\u043e "
    "\u0435\u0435 \u0435\u0449\u0435 \u0435\u0441\u043b\u0438 \u0435\u0441\u0442\u044c "
    "\u0436\u0435 \u0437\u0430 \u0437\u0434\u0435\u0441\u044c \u0438 \u0438\u0437 \u0438\u043b"
    "\u0438 "
    "\u0438\u043c \u0438\u0445 \u043a \u043a\u0430\u043a \u043a\u0430\u043a\u043e\u0439 "
    "\u043a\u043e\u0433\u0434\u0430 \u043a\u0442\u043e \u043b\u0438 \u043c\u0435\u043d\u044f "
    "\u043c\u043d\u0435 \u043c\u043e\u0439 \u043c\u043e\u044f \u043c\u044b \u043d\u0430 "
    "\u043d\u0435 \u043d\u0435\u0442 \u043d\u0438 \u043d\u043e \u043d\u0443 \u043e \u043e\u0431 "
    "\u043e\u043d \u043e\u043d\u0430 \u043e\u043d\u0438 \u043e\u0442 \u043f\u043e \u043f\u0440"
    "\u0438 "
    "\u0441 \u0441\u043e \u0442\u0430\u043a \u0442\u0430\u043c \u0442\u0435\u0431\u044f "
    "\u0442\u043e \u0442\u043e\u0433\u043e \u0442\u043e\u0442 \u0442\u044b \u0443 \u0443\u0436"
    "\u0435 "
    "\u0447\u0435\u0433\u043e \u0447\u0435\u043c \u0447\u0442\u043e \u0447\u0442\u043e\u0431\u044b "
    "\u044d\u0442\u0430 \u044d\u0442\u043e \u044d\u0442\u043e\u0442 \u044f",
    "\u0641\u064a \u0645\u0646 \u0639\u0644\u0649 \u0625\u0644\u0649 \u0639\u0646 "
    "\u0645\u0639 \u0647\u0630\u0627 \u0647\u0630\u0647 \u0630\u0644\u0643 "
    "\u062a\u0644\u0643 \u0627\u0644\u062a\u064a \u0627\u0644\u0630\u064a "
    "\u0627\u0644\u0630\u064a\u0646 \u0645\u0627 \u0645\u0627\u0630\u0627 \u0645\u062a\u0649 "
    "\u0623\u064a\u0646 \u0643\u064a\u0641 \u0644\u0645\u0627\u0630\u0627 \u0643\u0645 "
    "\u0647\u0644 \u0623\u064a \u0623\u064a\u0629 \u0623\u0646 \u0625\u0646 "
    "\u0643\u0627\u0646 \u0643\u0627\u0646\u062a \u064a\u0643\u0648\u0646 "
    "\u062a\u0643\u0648\u0646 \u0647\u0648 \u0647\u064a \u0647\u0645 \u0623\u0646\u0627 "
    "\u0646\u062d\u0646 \u0623\u0646\u062a \u0644\u0627 \u0644\u0645 \u0644\u0646 "
    "\u0642\u062f \u062b\u0645 \u0623\u0648 \u0628\u0644 \u0644\u0643\u0646 "
    "\u062d\u062a\u0649 \u0643\u0644 \u0628\u0639\u0636 \u063a\u064a\u0631 "
    "\u0628\u064a\u0646 \u0639\u0646\u062f \u0639\u0646\u062f\u064a \u0644\u062f\u064a "
    "\u0644\u064a \u0644\u0643 \u0644\u0647 \u0644\u0647\u0627 \u0644\u0646\u0627 "
    "\u0644\u0642\u062f \u0625\u0630\u0627 \u0643\u0645\u0627 \u0645\u062b\u0644 "
    "\u0641\u0642\u0637 \u062c\u062f\u0627 \u0623\u064a\u0636\u0627 \u0643\u0646\u062a "
    "\u0642\u0644\u062a \u0623\u062e\u0628\u0631\u062a\u0643 "
    "\u0623\u062e\u0628\u0631\u0646\u064a \u0623\u062e\u0628\u0631\u062a\u0646\u064a "
    "\u0642\u0627\u0644 \u0642\u0627\u0644\u062a \u0634\u0643\u0631\u0627 \u0646\u0639\u0645 "
    "\u0647\u0646\u0627 \u0647\u0646\u0627\u0643 \u0627\u0644\u0622\u0646 \u0628\u0639\u062f "
    "\u0642\u0628\u0644 \u0645\u0646\u0630 \u0645\u0646\u0647 \u0645\u0646\u0647\u0627 "
    "\u0641\u064a\u0647 \u0641\u064a\u0647\u0627 \u0639\u0644\u064a\u0647 "
    "\u0639\u0644\u064a\u0647\u0627 \u0628\u0647 \u0628\u0647\u0627 \u0623\u0646\u0647 "
    "\u0623\u0646\u0647\u0627 \u0648\u0623\u0646\u0627 \u0648\u0647\u0648 \u0648\u0647\u064a "
    "\u064a\u0627 \u0633\u0648\u0641 \u0644\u064a\u0633 \u0644\u064a\u0633\u062a "
    "\u062a\u0630\u0643\u0631 \u0630\u0643\u0631\u062a",
};

// Longest first is found by trying lengths; at most kDenseStopMax bytes.
constexpr std::string_view kDenseStopWords =
    "\u7684 \u4e86 \u662f \u5728 \u6211 \u4f60 \u60a8 \u4ed6 \u5979 \u5b83 \u6211\u4eec \u4f60"
    "\u4eec \u4ed6\u4eec \u8fd9 \u90a3 \u8fd9\u4e2a \u90a3\u4e2a \u54ea \u54ea\u4e2a \u54ea\u91cc "
    "\u54ea\u79cd \u54ea\u5ea7 \u54ea\u7ec4 \u4ec0\u4e48 \u8c01 \u600e\u4e48 \u600e\u6837 "
    "\u600e\u4e48\u6837 \u4e3a\u4ec0\u4e48 \u591a\u5c11 \u51e0 \u5417 \u5462 \u5427 \u554a \u548c "
    "\u4e0e \u8ddf \u6216 \u4f46 \u4e5f \u90fd \u5c31 \u5f88 \u592a \u4e0d \u6ca1 \u6ca1\u6709 "
    "\u6709 \u4f1a \u80fd \u8981 \u60f3 \u53ef\u4ee5 \u5e94\u8be5 \u628a \u88ab \u8ba9 "
    "\u7ed9 \u5bf9 \u4ece \u5230 \u5411 \u7528 \u4ee5 \u4e3a \u91cc \u4e0a \u4e0b \u4e2d \u4e00 "
    "\u4e00\u4e2a \u4e2a \u6b21 \u53c8 \u518d \u8fd8 \u5df2\u7ecf \u73b0\u5728 \u8bf7 \u8bf4 \u8fd9"
    "\u91cc \u90a3\u91cc \u662f\u5426 \u5230\u5e95 \u65f6\u5019 \u4f55\u5904 \u5404 "
    "\u306f \u304c \u3092 \u306b \u3078 \u3068 \u3067 \u3082 \u306e \u3084 \u304b \u306d \u3088 "
    "\u306a \u3060 \u3067\u3059 \u307e\u3059 \u3067\u3057\u305f \u307e\u3057\u305f \u3057\u305f "
    "\u3057\u3066 \u3059\u308b \u3057\u307e \u304b\u3089 \u307e\u3067 \u3088\u308a \u306a\u3069 "
    "\u3060\u3051 \u3057\u304b \u3063\u3066 \u3068\u3044\u3046 \u3068\u306f \u306b\u306f \u3067"
    "\u306f \u306e\u306f \u306e\u304c \u306e\u3092 \u3053\u306e \u305d\u306e \u3042\u306e \u3069"
    "\u306e \u3053\u308c \u305d\u308c \u3042\u308c \u3069\u308c \u3053\u3053 \u305d\u3053 \u3069"
    "\u3053 "
    "\u3060\u308c \u8ab0 \u4f55 \u306a\u306b \u306a\u3093 \u3044\u3064 \u306a\u305c \u3069\u3046 "
    "\u3069\u3093\u306a \u3044\u304f\u3089 \u3044\u304f\u3064 \u3069\u3061\u3089 \u3069\u306a\u305f"
    " \u3067\u3059 \u304b \u3067\u3059\u304b \u307e\u3059\u304b \u3067\u3057\u305f\u304b \u307e"
    "\u3057\u305f\u304b "
    "\u304f\u3060\u3055\u3044 \u3042\u308b \u3044\u308b \u3042\u308a\u307e\u3059 \u3044\u307e\u3059"
    " \u3042\u3063\u305f \u3044\u305f \u306a\u3044 \u306a\u308b \u306a\u3063\u305f \u306a\u308a"
    "\u307e\u3057\u305f \u305d\u3057\u3066 \u3067\u3082 \u3057\u304b\u3057 \u307e\u305f \u3082"
    "\u3046 \u307e\u3060 "
    "\u3068\u3066\u3082 \u79c1 \u50d5 \u4ffa \u3042\u306a\u305f \u5f7c \u5f7c\u5973 \u3055\u3093 "
    "\u3061\u3083\u3093 \u304f\u3093 \u3053\u3068 \u3082\u306e \u305f\u3081 \u3088\u3046 \u305d"
    "\u3046 \u306e\u3067 \u3051\u3069 \u304c\u3001 \u3066\u3044\u308b \u3066\u3044\u305f "
    "\u3066\u3044\u307e\u3059 \u3066\u3044\u307e\u3057\u305f \u3068\u3057\u3066 \u306b\u3064\u3044"
    "\u3066 "
    "\uc740 \ub294 \uc774 \uac00 \uc744 \ub97c \uc5d0 \uc758 \ub85c \uc640 \uacfc \ub3c4 "
    "\u0e17\u0e35\u0e48 \u0e41\u0e25\u0e30 \u0e02\u0e2d\u0e07 \u0e43\u0e19 \u0e40\u0e1b\u0e47\u0e19"
    " \u0e21\u0e35 \u0e44\u0e14\u0e49 \u0e43\u0e2b\u0e49 \u0e27\u0e48\u0e32 \u0e08\u0e30 \u0e44"
    "\u0e21\u0e48 \u0e01\u0e47 \u0e01\u0e31\u0e1a \u0e08\u0e32\u0e01 \u0e41\u0e15\u0e48 \u0e2b"
    "\u0e23\u0e37\u0e2d \u0e19\u0e35\u0e49 \u0e19\u0e31\u0e49\u0e19 \u0e04\u0e37\u0e2d \u0e2d\u0e22"
    "\u0e39\u0e48 \u0e41\u0e25\u0e49\u0e27 \u0e44\u0e1b \u0e21\u0e32 \u0e14\u0e49\u0e27\u0e22 "
    "\u0e42\u0e14\u0e22 \u0e0b\u0e36\u0e48\u0e07 "
    "\u0e40\u0e1e\u0e37\u0e48\u0e2d \u0e40\u0e21\u0e37\u0e48\u0e2d \u0e16\u0e49\u0e32 \u0e2d\u0e30"
    "\u0e44\u0e23 \u0e43\u0e04\u0e23 \u0e44\u0e2b\u0e19 \u0e17\u0e35\u0e48\u0e44\u0e2b\u0e19 \u0e40"
    "\u0e21\u0e37\u0e48\u0e2d\u0e44\u0e23 \u0e40\u0e21\u0e37\u0e48\u0e2d\u0e44\u0e2b\u0e23\u0e48 "
    "\u0e17\u0e33\u0e44\u0e21 \u0e2d\u0e22\u0e48\u0e32\u0e07\u0e44\u0e23 \u0e22\u0e31\u0e07\u0e44"
    "\u0e07 \u0e40\u0e17\u0e48\u0e32\u0e44\u0e23 \u0e40\u0e17\u0e48\u0e32\u0e44\u0e2b\u0e23\u0e48 "
    "\u0e01\u0e35\u0e48 \u0e44\u0e2b\u0e21 \u0e21\u0e31\u0e49\u0e22 \u0e2b\u0e23\u0e37\u0e2d\u0e40"
    "\u0e1b\u0e25\u0e48\u0e32 "
    "\u0e04\u0e23\u0e31\u0e1a \u0e04\u0e48\u0e30 \u0e04\u0e30 \u0e19\u0e30 \u0e09\u0e31\u0e19 "
    "\u0e1c\u0e21 \u0e14\u0e34\u0e09\u0e31\u0e19 \u0e40\u0e23\u0e32 \u0e04\u0e38\u0e13 \u0e40\u0e02"
    "\u0e32 \u0e40\u0e18\u0e2d \u0e21\u0e31\u0e19 \u0e1e\u0e27\u0e01 \u0e15\u0e31\u0e27 \u0e01"
    "\u0e32\u0e23 \u0e04\u0e27\u0e32\u0e21 \u0e2d\u0e31\u0e19 \u0e04\u0e19 \u0e19\u0e35\u0e48 "
    "\u0e19\u0e31\u0e48\u0e19 \u0e42\u0e19\u0e48\u0e19 \u0e22\u0e31\u0e07 \u0e40\u0e04\u0e22 \u0e01"
    "\u0e33\u0e25\u0e31\u0e07 \u0e16\u0e39\u0e01 "
    "\u0e15\u0e49\u0e2d\u0e07 \u0e04\u0e27\u0e23 \u0e2d\u0e32\u0e08 \u0e19\u0e48\u0e32 \u0e21\u0e32"
    "\u0e01 \u0e1a\u0e49\u0e32\u0e07 \u0e40\u0e2d\u0e07 \u0e01\u0e31\u0e19 \u0e2d\u0e35\u0e01 "
    "\u0e41\u0e04\u0e48 \u0e40\u0e1e\u0e35\u0e22\u0e07 \u0e17\u0e31\u0e49\u0e07 \u0e17\u0e38\u0e01 "
    "\u0e1a\u0e32\u0e07 \u0e2b\u0e25\u0e32\u0e22 \u0e15\u0e32\u0e21 \u0e15\u0e48\u0e2d \u0e16\u0e36"
    "\u0e07 \u0e02\u0e36\u0e49\u0e19 \u0e25\u0e07 \u0e2d\u0e2d\u0e01 \u0e40\u0e02\u0e49\u0e32 "
    "\u0e40\u0e25\u0e22 "
    "\u0e2a\u0e34 \u0e25\u0e48\u0e30 \u0e2b\u0e19\u0e48\u0e2d\u0e22 \u0e0a\u0e48\u0e27\u0e22 "
    "\u0e41\u0e2b\u0e48\u0e07 \u0e23\u0e30\u0e2b\u0e27\u0e48\u0e32\u0e07 \u0e40\u0e1e\u0e23\u0e32"
    "\u0e30 "
    "\u597d \u4e00\u904d \u63d0\u8fc7 \u544a\u8bc9 \u91cd\u590d \u8a00\u3063\u305f \u8a00\u3063"
    "\u3066 \u6559\u3048\u3066 \u6559\u3048\u305f \u8a71\u3057\u305f \u0e1a\u0e2d\u0e01 \u0e1e"
    "\u0e39\u0e14 \u0e40\u0e25\u0e48\u0e32";

constexpr size_t kDenseStopBytesMax = 24;

const std::unordered_map<std::string_view, uint16_t>& StopTable() {
  static const std::unordered_map<std::string_view, uint16_t> kTable = [] {
    std::unordered_map<std::string_view, uint16_t> table;
    for (size_t language = 0; language < kLanguages; ++language) {
      std::string_view left = kStopWords[language];
      while (!left.empty()) {
        const size_t end = std::min(left.find(' '), left.size());
        table[left.substr(0, end)] |= static_cast<uint16_t>(1u << language);
        left.remove_prefix(std::min(end + 1, left.size()));
      }
    }
    return table;
  }();
  return kTable;
}

// Normalised like the text it is compared with: NFKC takes the Thai vowel AM apart.
const std::unordered_map<std::string, bool>& DenseTable() {
  static const std::unordered_map<std::string, bool> kTable = [] {
    const std::string words = CleanText(kDenseStopWords, kDenseStopWords.size());
    std::unordered_map<std::string, bool> table;
    std::string_view left = words;
    while (!left.empty()) {
      const size_t end = std::min(left.find(' '), left.size());
      if (end > 0) table.emplace(left.substr(0, end), true);
      left.remove_prefix(std::min(end + 1, left.size()));
    }
    return table;
  }();
  return kTable;
}

}  // namespace

bool IsStopWord(std::string_view folded) {
  return StopTable().count(folded) > 0;
}

bool IsDenseStopWord(std::string_view word) {
  return word.size() <= kDenseStopBytesMax && DenseTable().count(std::string(word)) > 0;
}

size_t StopPrefixBytes(std::string_view text) {
  std::string_view head = ClipUtf8(text, kDenseStopBytesMax);
  while (!head.empty()) {
    if (IsDenseStopWord(head)) return head.size();
    head = ClipUtf8(head, head.size() - 1);
  }
  return 0;
}

namespace {

// A letter of Persian, Urdu and others that Arabic has not: U+0680 to U+06FF and Persian's P.
bool HasOtherArabicLetter(std::string_view word) {
  return word.find('\xDA') != std::string_view::npos ||
         word.find('\xDB') != std::string_view::npos ||
         word.find("\u067e") != std::string_view::npos;
}

}  // namespace

Language DetectLanguage(std::span<const Piece> pieces, Language fallback) {
  std::array<uint32_t, kLanguages> hits{};
  uint32_t cyrillic = 0;
  bool arabic = false, arabic_script = false;
  for (const Piece& piece : pieces) {
    if (piece.kind != LexKind::kWord) continue;
    const auto lead = static_cast<unsigned char>(piece.folded.front());
    if (lead == 0xD0 || lead == 0xD1) ++cyrillic;
    arabic = arabic || lead == 0xD8 || lead == 0xD9;
    arabic_script = arabic_script || HasOtherArabicLetter(piece.folded);
    const auto found = StopTable().find(piece.folded);
    if (found == StopTable().end()) continue;
    for (size_t language = 1; language < kLanguages; ++language) {
      hits[language] += (found->second >> language) & 1u;
    }
  }
  if (cyrillic > 0) return Language::kRu;
  if (arabic_script) return Language::kUnknown;
  if (arabic) return Language::kAr;
  const auto best = std::max_element(hits.begin(), hits.end());
  if (*best == 0) return fallback;
  if (std::count(hits.begin(), hits.end(), *best) > 1) {
    // A tie: what the session mostly speaks, if it is among them, else English before none: a
    // query asks for a word as each language of the session has it.
    if (hits[static_cast<size_t>(fallback)] == *best) return fallback;
    return hits[static_cast<size_t>(Language::kEn)] == *best ? Language::kEn : Language::kUnknown;
  }
  return static_cast<Language>(best - hits.begin());
}

const char* StemmerName(Language language) {
  constexpr std::array<const char*, kLanguages> kNames = {
      nullptr,      "english", "german",  "french",  "spanish", "italian",
      "portuguese", "dutch",   "swedish", "russian", "arabic"};
  return kNames[static_cast<size_t>(language)];
}

}  // namespace tenuto
