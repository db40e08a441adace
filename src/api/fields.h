// Reading an object of a request, each field by name. The first thing wrong is kept in a Problem that names its field;
// what nobody asked for is wrong too.
#pragma once

#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/api.h"

namespace quern::api {

// Where parsers put the first problem.
using ProblemSlot = std::optional<Problem>;

class Fields {
 public:
  // object: an object, and it outlives this. where: its place ("messages[0]"), empty for the body itself.
  Fields(const Json& object, std::string where, ProblemSlot* problem)
      : object_(&object), where_(std::move(where)), problem_(problem) {}

  bool good() const { return !problem_->has_value(); }
  std::string name_of(std::string_view field) const;
  void refuse(std::string_view field, std::string_view why, std::string code = {});

  // The field's value; null where it is absent, null or something went wrong before. Each marks the field as known.
  const Json* any(std::string_view field);
  const Json* object(std::string_view field);
  const Json* array(std::string_view field);
  // False where the field is absent or null, and *out stays as it is.
  bool text(std::string_view field, std::string* out);
  bool flag(std::string_view field, bool* out);
  bool integer(std::string_view field, int64_t min, int64_t max, int64_t* out);
  bool number(std::string_view field, double min, double max, float* out);
  bool choice(std::string_view field, std::initializer_list<std::string_view> allowed, std::string* out);
  void required(std::string_view field);

  // Fields that change nothing, and fields that are refused whatever they hold.
  void without_effect(std::initializer_list<std::string_view> fields);
  void unsupported(std::string_view field, std::string_view why);
  // These are allowed where they hold what we do anyway.
  void only(std::string_view field, const Json& value, std::string_view why);
  // The end: what was not read is refused.
  void finish();

 private:
  const Json* object_;
  std::string where_;
  ProblemSlot* problem_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace quern::api
