// What systemd wants to know of a service of Type=notify.
#pragma once

#include <string_view>

namespace quern::apps {

// Sends a state ("READY=1", "STOPPING=1") to the socket that NOTIFY_SOCKET names; nothing where it is not set. A socket
// that cannot be written to is a warning: the service manager will say more.
void tell_service_manager(std::string_view state);

}  // namespace quern::apps
