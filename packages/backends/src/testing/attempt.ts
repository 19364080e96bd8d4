/** An escape attempt from inside. docs/SECURITY.md has a row for each. */
export interface Attempt {
  /** The act that is tried. */
  readonly name: string
  /** The obstacle, for the row. */
  readonly stoppedBy: string
  /** The ways in which each of the attempt's tries may end: the name of an error, or a word that `script` says. */
  readonly sees: readonly string[]
  /** Perl that reports each of its tries by `try_to`; see inside.ts. */
  readonly script: string | ((given: Given) => string)
  /** Some of the tries succeed once hardening is taken away: so the suite proves that they are real ones. */
  readonly succeedsUnhardened?: true
  /** All of the tries are heard once the host's rules are taken away. */
  readonly heardUnfenced?: true
  /** The only architecture whose kernel has such a thing. */
  readonly onlyOn?: NodeJS.Architecture
}

/** The outcome of an attempt on a backend where it does not end as listed. */
export interface Difference {
  /** The ways in which the tries may end there; empty if the attempt is not made, because it would succeed. */
  readonly sees: readonly string[]
  /** The reason, and what follows from it. */
  readonly why: string
}

/** Differences, by the attempt's name. */
export type Differences = Readonly<Record<string, Difference>>

/** The facts that a sandbox is given about the world around it. Never a secret: it has to find those. */
export interface Given {
  /** Files of the host that hold a secret, and sockets of the server. */
  readonly hostFiles: readonly string[]
  /** The SHA-256 of the host's /etc/shadow. */
  readonly hostShadow: string
  readonly serverSockets: { readonly path: string; readonly abstract: string }
  readonly network: GivenNetwork
}

export interface GivenNetwork {
  /** The ports of all listeners: `any` on all addresses, `loopback` on 127.0.0.1 alone. */
  readonly ports: { readonly any: number; readonly loopback: number }
  /** An address that stands for the internet. */
  readonly internet: string
  readonly host: string
  /** An IPv6 address of the host. */
  readonly hostIpv6: string
  readonly metadata: string
  /** Private, link-local and reserved addresses, by what they are. */
  readonly notInternet: Readonly<Record<string, string>>
  readonly neighbour: string
}

/** The length of a secret's number: planted secrets look like `…-secret-0123…`, and nothing else does. */
export const SECRET_DIGITS = 32

/** A template without escapes: Perl's own backslashes stay. */
export const perl = String.raw

/** The text as a literal of Perl. */
export const quoted = (text: string): string => `'${text.replaceAll(/['\\]/g, "\\$&")}'`
