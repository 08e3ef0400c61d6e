#pragma once
// Connections over TCP whose waits can be ended from another thread, as NCCL's are by an abort.

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace standin {

/// Thrown by a wait that was ended.
struct Aborted {};
/// Thrown where the other end has gone.
struct PeerLost {};

/// Ends all waits that look at it, now and later.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();
  void set() const;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int number() const { return number_; }

 private:
  int number_;
};

class Wire {
 public:
  explicit Wire(Descriptor socket);
  /// Throws PeerLost when nobody listens there.
  static Wire connect(const sockaddr_in& address, const Interrupt& interrupt);

  void send(const void* bytes, std::size_t count, const Interrupt& interrupt) const;
  void receive(void* bytes, std::size_t count, const Interrupt& interrupt) const;
  template <typename Value>
  void send(const Value& value, const Interrupt& interrupt) const {
    send(&value, sizeof(value), interrupt);
  }
  template <typename Value>
  Value receive(const Interrupt& interrupt) const {
    Value value;
    receive(&value, sizeof(value), interrupt);
    return value;
  }
  int descriptor() const { return socket_.number(); }

 private:
  Descriptor socket_;
};

class Listener {
 public:
  /// At any port of the interface that NCCL_SOCKET_IFNAME names, or of the first that is not the loopback.
  Listener();
  const sockaddr_in& address() const { return address_; }
  /// Throws PeerLost when one of `watched`, over which nothing comes, has ended.
  Wire accept(const std::vector<Wire>& watched, const Interrupt& interrupt) const;

 private:
  Descriptor socket_;
  sockaddr_in address_{};
};

}  // namespace standin
