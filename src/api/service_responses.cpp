// Answers of /v1/responses that are kept: GET and DELETE by id, and conversations that go on from one.
#include "api/service_impl.h"

namespace quern::api {
namespace {

constexpr char kPrevious[] = "previous_response_id";

std::string quoted(const std::string& id) {
  return "\"" + id.substr(0, 100) + "\"";
}

Problem not_kept(const std::string& id, bool on, std::string field) {
  const std::string why = on ? "it was never kept, or the oldest had to go since" : "this server keeps none (--store)";
  return Problem{.status = 404,
                 .message = "there is no response with the id " + quoted(id) + ": " + why,
                 .field = std::move(field),
                 .code = "response_not_found"};
}

// The items that a body adds to its conversation, as an array.
Json items_of(const Json& input) {
  if (!input.is_string()) return input;
  return Json::array({Json{{"type", "message"}, {"role", "user"}, {"content", input}}});
}

}  // namespace

std::optional<Problem> Service::Impl::read_responses(const Json& body, Request* request, Json* items) const {
  *items = Json::array();
  const auto previous = body.find(kPrevious);
  if (previous != body.end() && previous->is_string()) {
    const auto stored = store_.find(previous->get<std::string>());
    if (!stored) return not_kept(previous->get<std::string>(), store_.on(), kPrevious);
    *items = Json::parse(stored->conversation);
  }
  if (auto problem = parse_responses(body, *items, defaults_of(body), request)) return problem;
  if (!store_.on()) {
    const auto asked = body.find("store");
    if (asked != body.end() && *asked == Json(true))
      return Problem{.message = "store: this server keeps no responses (--store)",
                     .field = "store",
                     .code = "unsupported_parameter"};
    request->store = false;
  }
  for (const Json& item : items_of(body["input"])) items->push_back(item);
  return std::nullopt;
}

KeepResponse Service::Impl::keeper(Json items) {
  return [self = shared_from_this(), items = std::move(items)](const Json& response) {
    Json conversation = items;
    for (const Json& item : response["output"]) conversation.push_back(item);
    return self->store_.put(response["id"].get<std::string>(), {dump(response), dump(conversation)});
  };
}

HttpResponse Service::Impl::stored_response(const HttpRequest& http, const std::string& id) {
  const bool get = http.method == "GET";
  if (!get && http.method != "DELETE")
    return problem_response(Problem{.status = 405, .message = "this path takes GET and DELETE"}, Dialect::openai);
  if (http.query.find("stream=true") != std::string::npos)
    return problem_response(Problem{.message = "stream: a stored response is not streamed again", .field = "stream"},
                            Dialect::openai);
  if (get) {
    if (auto stored = store_.find(id)) {
      HttpResponse response;
      response.body = std::move(stored->response);
      return response;
    }
  } else if (store_.erase(id)) {
    return json_response({{"id", id}, {"object", "response"}, {"deleted", true}});
  }
  return problem_response(not_kept(id, store_.on(), ""), Dialect::openai);
}

}  // namespace quern::api
