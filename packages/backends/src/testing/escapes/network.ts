import { type Attempt, type Given, type GivenNetwork, perl, quoted } from "../attempt.ts"

const everywhere = ({
  host,
  metadata,
  notInternet,
}: GivenNetwork): Readonly<Record<string, string>> => ({
  "the host": host,
  "the metadata address": metadata,
  ...notInternet,
})

const dialAll = (places: Readonly<Record<string, string>>, port: number): string =>
  Object.entries(places)
    .map(
      ([name, address]) =>
        `try_to(${quoted(`${name} at ${address}`)}, sub { dial(${quoted(address)}, ${port}) });`,
    )
    .join("\n")

const LOOPBACK = ({ network: { ports } }: Given): string =>
  Object.values(ports)
    .map((port) =>
      dialAll({ "its own loopback": "127.0.0.1", "all of loopback": "127.0.0.53" }, port),
    )
    .join("\n")

/** The content of UDP packets that are sent where they may not go, so that none may arrive. */
export const STRAY = "stray"

/** Attempts without any network. */
export const NONE_ATTEMPTS: readonly Attempt[] = [
  {
    name: "reach anything by TCP without a network",
    stoppedBy: "a network namespace of its own, with a loopback device alone",
    sees: ["ENETUNREACH", "EADDRNOTAVAIL"],
    script: ({ network }) =>
      dialAll(
        { "the internet": network.internet, ...everywhere(network), IPv6: network.hostIpv6 },
        network.ports.any,
      ),
  },
  {
    name: "reach the host's loopback without a network",
    stoppedBy: "a network namespace of its own: its loopback is not the host's",
    sees: ["ECONNREFUSED"],
    script: LOOPBACK,
  },
]

/** The attempt with a list of ranges beside the internet: one of these places, the host and the neighbour. */
export const LISTED: Attempt = {
  name: "reach more than the ranges that its workspace lists",
  stoppedBy: "the firewall's rules: a list opens neither the host nor another sandbox",
  sees: ["ECONNREFUSED"],
  script: ({ network }) => {
    const listed = listedIn(network)
    const { host, neighbour, notInternet, metadata, ports } = network
    const others = Object.entries({ ...notInternet, metadata }).filter(([, it]) => it !== listed)
    const refused = { "the host": host, neighbour, ...Object.fromEntries(others) }
    const script = `dial(${quoted(listed)}, ${ports.any}) eq "=heard" or die "the listed one is silent";`
    return script + dialAll(refused, ports.any)
  },
}

/** The place of LISTED that may be reached. */
export const listedIn = ({ notInternet }: GivenNetwork): string =>
  Object.values(notInternet)[0] ?? ""

/** An attempt that ends when the host's rules are gone. */
export const KNOCKING: Attempt = {
  name: "knock until the host answers",
  stoppedBy: "the firewall's rules",
  sees: ["heard"],
  script: ({ network: { host, ports } }) => perl`
    my $heard = "";
    for (1 .. 1000) {
      last if ($heard = dial(${quoted(host)}, ${ports.any}) // "") eq "=heard";
      select(undef, undef, undef, 0.01);
    }
    try_to("the host", sub { $heard });
  `,
}

/** Attempts with the internet. */
export const OPEN_ATTEMPTS: readonly Attempt[] = [
  {
    name: "reach the host's loopback",
    stoppedBy: "a network namespace of its own: its loopback is not the host's",
    sees: ["ECONNREFUSED"],
    script: LOOPBACK,
  },
  {
    name: "reach a service of the host at one of its addresses",
    stoppedBy: "the firewall's rules",
    sees: ["ECONNREFUSED"],
    heardUnfenced: true,
    script: ({ network: { host, ports } }) => perl`
      # The other end of the default route, in the kernel's order of bytes.
      my ($gateway) = content_of("/proc/net/route") =~ /^\S+\t00000000\t(\S+)/m or die "no route";
      $gateway = join ".", reverse map { hex } $gateway =~ /../g;
      try_to("the gateway at $gateway", sub { dial($gateway, ${ports.any}) });
      ${dialAll({ "the host": host }, ports.any)}
    `,
  },
  {
    name: "reach the metadata address",
    stoppedBy: "the firewall's rules",
    sees: ["ECONNREFUSED"],
    heardUnfenced: true,
    script: ({ network: { metadata, ports } }) =>
      dialAll({ "the metadata address": metadata }, ports.any),
  },
  {
    name: "reach a private, link-local or reserved network",
    stoppedBy: "the firewall's rules",
    sees: ["ECONNREFUSED"],
    heardUnfenced: true,
    script: ({ network: { notInternet, ports } }) => dialAll(notInternet, ports.any),
  },
  {
    name: "reach another sandbox over the network",
    stoppedBy: "the firewall's rules",
    sees: ["ECONNREFUSED"],
    heardUnfenced: true,
    script: ({ network: { neighbour, ports } }) =>
      dialAll({ "the neighbour": neighbour }, ports.any),
  },
  {
    name: "reach the host by IPv6",
    stoppedBy: "no IPv6 inside, and rules that drop it",
    sees: ["ENETUNREACH", "EADDRNOTAVAIL", "EHOSTUNREACH"],
    script: ({ network: { hostIpv6, ports } }) => dialAll({ "the host": hostIpv6 }, ports.any),
  },
  {
    name: "send packets to where no connection leads",
    stoppedBy: "the firewall's rules",
    sees: ["sent-and-lost"],
    script: ({ network }) => {
      const { internet, neighbour, ports } = network
      const places = {
        ...everywhere(network),
        neighbour,
        all: "255.255.255.255",
        group: "224.0.0.1",
      }
      const addresses = Object.values(places).map(quoted).join(", ")
      return perl`
        sub send_to {
          my ($address, $text) = @_;
          socket(my $socket, AF_INET, SOCK_DGRAM, 0) or die $!;
          setsockopt($socket, SOL_SOCKET, SO_BROADCAST, 1);
          send($socket, $text, 0, pack_sockaddr_in(${ports.any}, inet_aton($address)));
        }
        # The listeners tell whether a packet has arrived.
        for my $address (${addresses}) {
          send_to($address, "${STRAY} $address");
          try_to($address, sub { "=sent-and-lost" });
        }
        send_to(${quoted(internet)}, "last");
      `
    },
  },
  {
    name: "send packets that it makes itself, or by another family of sockets",
    stoppedBy: "the missing capability; for other families, the system call filter",
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      my %kinds = ("raw ICMP" => [2, 3, 1], "raw IP" => [2, 3, 255], "raw IPv6" => [10, 3, 58], "packet" => [17, 3, 0x300],
        "vsock" => [40, 1, 0], "alg" => [38, 5, 0], "key" => [15, 3, 2], "bluetooth" => [31, 3, 1], "xdp" => [44, 3, 0]);
      for my $kind (sort keys %kinds) {
        my ($family, $type, $protocol) = @{$kinds{$kind}};
        try_to($kind, sub { socket(my $socket, $family, $type, $protocol) });
      }
    `,
  },
  {
    name: "change its own network",
    stoppedBy: "the missing capability",
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      socket(my $socket, AF_INET, SOCK_DGRAM, 0) or die $!;
      my $address = pack("a16 S n a4 x8 x8", "eth0", 2, 0, inet_aton("203.0.113.77"));
      try_to("an address", sub { ioctl($socket, 0x8916, $address) });
      for my $device (qw(eth0 lo)) {
        my $flags = pack("a16 S x22", $device, 0);
        try_to("take $device down", sub { ioctl($socket, 0x8914, $flags) });
      }
      my $route = "\0" x 120;
      try_to("a route", sub { ioctl($socket, 0x890b, $route) });
      # SO_MARK, by which rules tell packets apart.
      try_to("a mark", sub { setsockopt($socket, SOL_SOCKET, 36, 1) });
    `,
  },
]
