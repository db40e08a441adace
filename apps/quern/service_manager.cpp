// The protocol is one datagram a state to a local socket; "@" begins a name that is no file.
#include "apps/quern/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "base/log.h"
#include "base/options.h"

namespace quern::apps {

void tell_service_manager(std::string_view state) {
  const auto name = environment("NOTIFY_SOCKET");
  if (!name || name->empty()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name->size() >= sizeof address.sun_path) return log_warning("NOTIFY_SOCKET is too long for a socket's name");
  std::memcpy(address.sun_path, name->data(), name->size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name->size());
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool sent = fd >= 0 && ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL,
                                        reinterpret_cast<const sockaddr*>(&address), bytes) >= 0;
  if (!sent) log_warning("the service manager at " + *name + " cannot be told " + std::string(state));
  if (fd >= 0) ::close(fd);
}

}  // namespace quern::apps
