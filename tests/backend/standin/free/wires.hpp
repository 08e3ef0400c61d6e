#pragma once
// Connections over TCP. Another thread can end their waits, as an abort does in NCCL.

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace standin {

/// Thrown by a wait that an Interrupt ended.
struct Aborted {};
/// Thrown if the other end has closed the connection.
struct PeerLost {};

/// An object that ends all present and later waits that use it.
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
  /// Connects to the address. Throws PeerLost if no process listens there.
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
  /// Listens on a free port of the interface in NCCL_SOCKET_IFNAME, or of the first interface that is not the
  /// loopback.
  Listener();
  const sockaddr_in& address() const { return address_; }
  /// Accepts a connection. Throws PeerLost if one of the `watched` connections has ended.
  Wire accept(const std::vector<Wire>& watched, const Interrupt& interrupt) const;

 private:
  Descriptor socket_;
  sockaddr_in address_{};
};

}  // namespace standin
