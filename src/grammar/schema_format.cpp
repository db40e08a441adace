// Formats as regular expressions. Each describes valid texts only, but not always all of them: docs/GRAMMARS.md. A host
// inside an email address has short labels, and a URI's any length, so that a maxLength beside them stays small.
#include "grammar/schema_flat.h"

namespace quern::grammar {
namespace {

#define YEAR "([1-9][0-9]{3})"
#define LEAP_YEAR "([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)"
#define DATE                                                                                                 \
  "(" YEAR                                                                                                   \
  "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))" \
  "|" LEAP_YEAR "-02-29)"
#define TIME "(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+\\-]([01][0-9]|2[0-3]):[0-5][0-9]))"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?"
#define HOST "(" LABEL "(\\." LABEL "){0,3})"
#define SHORT_LABEL "[A-Za-z0-9]([A-Za-z0-9\\-]{0,18}[A-Za-z0-9])?"
#define SHORT_HOST "(" SHORT_LABEL "(\\." SHORT_LABEL "){0,3})"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4 "(" BYTE "(\\." BYTE "){3})"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                          \
  "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16 ":){0,1}" H16 ")?::(" H16 \
  ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32 "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16 \
  ":){0,4}" H16 ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16 ":){0,6}" H16 ")?::)"
#define ESCAPED "%[0-9A-Fa-f]{2}"
#define PCHAR "([A-Za-z0-9\\-._~!$&'()*+,;=:@]|" ESCAPED ")"
#define QUERY "([A-Za-z0-9\\-._~!$&'()*+,;=:@/?]|" ESCAPED ")*"
#define NAME_PART "[A-Za-z0-9]+(-+[A-Za-z0-9]+)*"
#define AUTHORITY "(" NAME_PART "(\\." NAME_PART ")*(:[0-9]{1,5})?)"
#define PATH "(/" PCHAR "*)*"
#define TAIL "(\\?" QUERY ")?(#" QUERY ")?"
#define SCHEME "[A-Za-z][A-Za-z0-9+\\-.]*"

struct Format {
  const char* name;
  const char* pattern;
};
constexpr Format kFormats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration",
     "^P((([0-9]+Y)([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)(T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-"
     "9]+S))?|"
     "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)|[0-9]+W)$"},
    {"email", "^[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]+)*@" SHORT_HOST "$"},
    {"hostname", "^" HOST "$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
    {"uri", "^" SCHEME ":(//" AUTHORITY PATH "|/(" PCHAR "+" PATH ")?|" PCHAR "+" PATH ")" TAIL "$"},
    {"uri-reference", "^(" SCHEME ":)?//" AUTHORITY PATH TAIL "$|^/(" PCHAR "+" PATH ")?" TAIL "$|^" TAIL "$"},
    {"json-pointer", "^(/([^~/]|~[01])*)*$"},
};

}  // namespace

const char* format_pattern(const std::string& name) {
  for (const Format& format : kFormats) {
    if (name == format.name) return format.pattern;
  }
  return nullptr;
}

}  // namespace quern::grammar
