#include "runtime/host_exchange.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

namespace evenstep {
namespace {

using nlohmann::json;

struct Header {
  std::uint64_t job = 0;
  std::int32_t asks = 0;
  std::int32_t count = 0;
};
constexpr std::size_t most_bytes = 60'000;
constexpr std::size_t most_places = (most_bytes - sizeof(Header)) / sizeof(RankPlace);

// Of this host, but loopback and what holds on one link only.
std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN] = {};
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr)
      addresses.emplace_back(text);
  }
  freeifaddrs(list);
  return addresses;
}

std::uint16_t port_of(int socket) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.sin_port);
}

std::optional<sockaddr_in> address_of(const std::string& text, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) return {};
  return address;
}

}  // namespace

HostExchange::HostExchange(Communicator& communicator, std::span<const std::string> hosts)
    : ranks_(communicator.size()) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  if (std::ranges::count(hosts, hosts[0]) == ranks_) return;
  const auto first =
      static_cast<std::size_t>(std::ranges::find(hosts, hosts[rank]) - hosts.begin());
  open();
  json mine = json::object();
  if (first == rank && socket_ >= 0)
    mine = {{"addresses", own_addresses()}, {"port", port_of(socket_)}};
  if (rank == 0) mine["job"] = std::random_device()() | std::uint64_t{std::random_device()()} << 32;
  const std::vector<std::string> all = communicator.gather(mine.dump());
  job_ = json::parse(all[0])["job"];
  for (std::size_t r = 0; r < all.size(); ++r) {
    const json other = json::parse(all[r]);
    if (hosts[r] == hosts[rank] || !other.contains("port")) continue;
    for (const std::string address : other["addresses"])
      if (const auto place = address_of(address, other["port"])) remember(*place);
  }
  datagram_.resize(most_bytes);
  places_.reserve(hosts.size());
}

HostExchange::~HostExchange() {
  if (socket_ >= 0) ::close(socket_);
}

void HostExchange::open() {
  socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (socket_ >= 0 && bind(socket_, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0)
    return;
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void HostExchange::remember(const sockaddr_in& other) {
  const auto is_same = [&](const sockaddr_in& known) {
    return known.sin_addr.s_addr == other.sin_addr.s_addr && known.sin_port == other.sin_port;
  };
  if (std::ranges::none_of(others_, is_same)) others_.push_back(other);
}

void HostExchange::send(std::span<const RankPlace> mine, bool asks) {
  mine = mine.first(std::min(mine.size(), most_places));
  const Header header{job_, asks ? 1 : 0, static_cast<std::int32_t>(mine.size())};
  std::memcpy(datagram_.data(), &header, sizeof header);
  std::memcpy(datagram_.data() + sizeof header, mine.data(), mine.size_bytes());
  for (const sockaddr_in& other : others_)  // what cannot be reached stays silent
    (void)sendto(socket_, datagram_.data(), sizeof header + mine.size_bytes(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&other), sizeof other);
}

HostExchange::Received HostExchange::receive() {
  Received received;
  places_.clear();
  for (;;) {
    sockaddr_in from{};
    socklen_t length = sizeof from;
    const ssize_t bytes = recvfrom(socket_, datagram_.data(), datagram_.size(), 0,
                                   reinterpret_cast<sockaddr*>(&from), &length);
    if (bytes < 0) break;
    Header header;
    if (static_cast<std::size_t>(bytes) < sizeof header) continue;
    std::memcpy(&header, datagram_.data(), sizeof header);
    const auto count = (static_cast<std::size_t>(bytes) - sizeof header) / sizeof(RankPlace);
    if (header.job != job_ || header.count != static_cast<std::int64_t>(count)) continue;
    received.asked = received.asked || header.asks != 0;
    if (header.asks != 0) remember(from);
    for (std::size_t i = 0; i < count; ++i) {
      RankPlace place;
      std::memcpy(&place, datagram_.data() + sizeof header + i * sizeof place, sizeof place);
      if (place.rank >= 0 && place.rank < ranks_) places_.push_back(place);
    }
  }
  received.places = places_;
  return received;
}

}  // namespace evenstep
