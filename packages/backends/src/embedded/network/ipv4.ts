import type { Ipv4Range } from "@berth/protocol/network"

/** A run of IPv4 addresses as numbers, both ends included. */
export interface Span {
  readonly first: number
  readonly last: number
}

export const toNumber = (address: string): number =>
  address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0)

export const toAddress = (value: number): string =>
  [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join(".")

export const spanOf = (range: Ipv4Range): Span => {
  const [address = "", bits = "32"] = range.split("/")
  const first = toNumber(address)
  return { first, last: first + 2 ** (32 - Number(bits)) - 1 }
}

export const overlaps = (one: Span, other: Span): boolean =>
  one.first <= other.last && other.first <= one.last

/** Merges spans into as few as possible: a set of the firewall takes no two that overlap. */
export const merge = (spans: readonly Span[]): Span[] => {
  const merged: Span[] = []
  for (const span of spans.toSorted((one, other) => one.first - other.first)) {
    const before = merged.at(-1)
    if (before === undefined || span.first > before.last + 1) merged.push(span)
    else merged[merged.length - 1] = { ...before, last: Math.max(before.last, span.last) }
  }
  return merged
}

/** A span as nft writes it: `10.0.0.0-10.1.255.255`, or one address. */
export const toText = ({ first, last }: Span): string =>
  first === last ? toAddress(first) : `${toAddress(first)}-${toAddress(last)}`

export const isLoopback = (address: string | undefined): boolean =>
  address?.startsWith("127.") ?? false
