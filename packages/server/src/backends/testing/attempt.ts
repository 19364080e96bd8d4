/** One way out that is tried from inside. docs/SECURITY.md has a row for each. */
export interface Attempt {
  /** What is tried. */
  readonly name: string
  /** What stands in its way, for the row. */
  readonly stoppedBy: string
  /** The ways in which each of its tries may end: the name of an error, or a word that `script` says. */
  readonly sees: readonly string[]
  /** Perl that tells of each of its tries by `try_to`; see inside.ts. */
  readonly script: string | ((given: Given) => string)
  /** Some of its tries succeed once hardening is taken away: so the suite proves that they are real ones. */
  readonly succeedsUnhardened?: true
  /** All of its tries are heard once the host's rules are taken away. */
  readonly heardUnfenced?: true
  /** Where the kernel has no such thing elsewhere. */
  readonly onlyOn?: NodeJS.Architecture
}

/** What comes of an attempt on a backend where it does not end as listed. */
export interface Difference {
  /** The ways in which its tries may end there; none where it is not made, because it would succeed. */
  readonly sees: readonly string[]
  /** Why that is so, and what follows from it. */
  readonly why: string
}

/** By the attempt's name. */
export type Differences = Readonly<Record<string, Difference>>

/** What a sandbox that wants out is told of the world around it. Never a secret: it has to find those. */
export interface Given {
  /** Files of the host that hold a secret, and sockets of the server. */
  readonly hostFiles: readonly string[]
  /** The SHA-256 of the host's /etc/shadow. */
  readonly hostShadow: string
  readonly serverSockets: { readonly path: string; readonly abstract: string }
  readonly network: GivenNetwork
}

export interface GivenNetwork {
  /** Every listener is on these: `any` on all addresses, `loopback` on 127.0.0.1 alone. */
  readonly ports: { readonly any: number; readonly loopback: number }
  /** Stands for the internet. */
  readonly internet: string
  readonly host: string
  /** An address of the host as well. */
  readonly hostIpv6: string
  readonly metadata: string
  /** Private, link-local and reserved ones, by what they are. */
  readonly notInternet: Readonly<Record<string, string>>
  readonly neighbour: string
}

/** Where a sandbox may find `…-secret-0123…`: what the suite plants looks so, and nothing else does. */
export const SECRET_DIGITS = 32

/** Perl's own backslashes stay what they are. */
export const perl = String.raw

/** As a literal of Perl. */
export const quoted = (text: string): string => `'${text.replaceAll(/['\\]/g, "\\$&")}'`
