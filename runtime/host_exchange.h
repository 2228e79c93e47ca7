// A side channel between hosts, for the watchdog: where ranks are, sent as datagrams (UDP, one
// sender a host) only while somebody waits for long. What gets lost is sent again at the next tick.
// A host is asked at its first rank's address; another rank that sends for it is answered at its
// own.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenstep/communicator.h"

namespace evenstep {

struct RankPlace {
  std::int32_t rank = 0;
  std::int32_t stopped = 0;  ///< its process does not run
  std::int64_t at = -1;      ///< step and state, as the watchdog writes them
};

class HostExchange {
 public:
  /// Collective, blocking. With one host only, or without a socket, there is no exchange.
  HostExchange(Communicator& communicator, std::span<const std::string> hosts);
  ~HostExchange();
  HostExchange(const HostExchange&) = delete;
  HostExchange& operator=(const HostExchange&) = delete;

  /// Whether there is someone to send to.
  bool can_send() const { return socket_ >= 0 && !others_.empty(); }

  // By one thread, of a rank that can send. Neither blocks.

  /// To all other hosts; `asks` for their ranks' places in return.
  void send(std::span<const RankPlace> mine, bool asks);
  struct Received {
    std::span<const RankPlace> places;  ///< valid until the next call
    bool asked = false;                 ///< another host asks for this one's
  };
  /// All that has come since the last call.
  Received receive();

 private:
  void open();
  void remember(const sockaddr_in& other);

  std::uint64_t job_ = 0;  // what does not begin with it is not for us
  int ranks_;
  int socket_ = -1;
  std::vector<sockaddr_in> others_;
  std::vector<std::byte> datagram_;
  std::vector<RankPlace> places_;
};

}  // namespace evenstep
