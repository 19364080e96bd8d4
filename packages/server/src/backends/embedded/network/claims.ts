import {
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import { Ipv4Range } from "@berth/protocol/network"
import { z } from "zod"
import { candidates } from "./candidates.ts"
import type { Names } from "./names.ts"
import type { Pool } from "./pool.ts"

const Claim = z.strictObject({
  sandbox: SandboxId,
  device: z.string(),
  address: z.ipv4(),
  /** The ranges that the sandbox may reach besides the internet. Present once its link is being made. */
  allow: z.array(Ipv4Range).readonly().optional(),
})
/** A sandbox's claim: its device and address. It is on disk before anything else of the sandbox's network exists. */
export type Claim = Readonly<z.infer<typeof Claim>>

/** The claim of a sandbox whose link is made, or is about to be. */
export type Attached = Claim & { readonly allow: readonly Ipv4Range[] }

export const isAttached = (claim: Claim): claim is Attached => claim.allow !== undefined

/** Synchronous: a change looks at what is taken before it writes, and nothing comes in between. */
export interface Claims {
  /** Gives the sandbox's claim. A new claim takes an address that no claim has and that is not in `held`. */
  reserve(sandbox: SandboxId, held: ReadonlySet<string>): Claim
  attach(claim: Claim, allow: readonly Ipv4Range[]): Attached
  /**
   * The claim of the device that is named after this sandbox. Seldom, it is that of another sandbox with nearly the
   * same id.
   */
  holder(sandbox: SandboxId): Claim | undefined
  /** The devices of all claims, without reading them. */
  devices(): string[]
  all(): Claim[]
  release(sandbox: SandboxId): void
}

/**
 * Two directories: `devices/NAME` is the claim of the sandbox that the device is named after, and
 * `addresses/ADDRESS` is a link to that name, which only one claim can make.
 *
 * The device's file is written first and removed last: an address never lacks its owner.
 */
export const createClaims = (directory: string, names: Names, pool: Pool): Claims => {
  const devices = join(directory, "devices")
  const addresses = join(directory, "addresses")

  const reserve = (sandbox: SandboxId, held: ReadonlySet<string>): Claim => {
    mkdirSync(devices, { recursive: true, mode: 0o700 })
    mkdirSync(addresses, { recursive: true, mode: 0o700 })
    const device = names.deviceOf(sandbox)
    const known = read(device)
    if (known !== undefined && known.sandbox !== sandbox) {
      throw new BerthError("backend.network_conflict", `${device} is the link of another sandbox`, {
        details: { device, sandbox, holder: known.sandbox },
      })
    }
    if (known !== undefined && take(known.address, device)) return known
    for (const address of candidates(sandbox, pool)) {
      if (held.has(address) || holderOf(address) !== undefined) continue
      const claim = { sandbox, device, address }
      write(claim)
      if (take(address, device)) return claim
    }
    throw new BerthError("backend.network_exhausted", `every address of ${pool.range} is taken`, {
      details: { pool: pool.range },
    })
  }

  const release = (sandbox: SandboxId): void => {
    const device = names.deviceOf(sandbox)
    const claim = read(device)
    if (claim !== undefined && holderOf(claim.address) === device) {
      rmSync(join(addresses, claim.address), { force: true })
    }
    rmSync(draftOf(device), { force: true })
    rmSync(join(devices, device), { force: true })
  }

  const listDevices = (): string[] =>
    (orMissing(() => readdirSync(devices)) ?? []).filter((name) => !isDraft(name))

  const all = (): Claim[] =>
    listDevices().flatMap((device) => {
      const claim = read(device)
      if (claim === undefined) discard(device)
      return claim ?? []
    })

  /** Removes a claim that a power loss damaged; the link of its sandbox is gone by itself. */
  const discard = (device: string): void => {
    rmSync(join(devices, device), { force: true })
    for (const address of orMissing(() => readdirSync(addresses)) ?? []) holderOf(address)
  }

  const read = (device: string): Claim | undefined => {
    const text = orMissing(() => readFileSync(join(devices, device), "utf8"))
    return text === undefined ? undefined : parse(text)
  }

  /**
   * Writes a claim: the file appears whole or not at all. The draft's name is fixed, so that a crash leaves only one.
   */
  const write = (claim: Claim): void => {
    const draft = draftOf(claim.device)
    try {
      writeFileSync(draft, JSON.stringify(claim), { mode: 0o600 })
      renameSync(draft, join(devices, claim.device))
    } catch (cause) {
      rmSync(draft, { force: true })
      if (!isFull(cause)) throw cause
      throw new BerthError("backend.disk_full", "no space is left for a sandbox's address", {
        details: { path: draft },
        cause,
      })
    }
  }

  const draftOf = (device: string) => join(devices, `.${device}`)

  /** Takes an address for a device. Returns whether the device has it now. */
  const take = (address: string, device: string): boolean => {
    const holder = holderOf(address)
    if (holder !== undefined) return holder === device
    try {
      symlinkSync(device, join(addresses, address))
      return true
    } catch (thrown) {
      if (hasCode(thrown, "EEXIST")) return false
      throw thrown
    }
  }

  /**
   * The device that holds an address. A link whose device claims another address, or nothing, was left by a crash, and
   * is removed.
   */
  const holderOf = (address: string): string | undefined => {
    const path = join(addresses, address)
    const device = orMissing(() => readlinkSync(path))
    if (device === undefined) return undefined
    if (read(device)?.address === address) return device
    rmSync(path, { force: true })
    return undefined
  }

  return {
    reserve,
    attach(claim, allow) {
      const attached = { ...claim, allow }
      write(attached)
      return attached
    },
    holder: (sandbox) => read(names.deviceOf(sandbox)),
    devices: listDevices,
    all,
    release,
  }
}

const isDraft = (name: string) => name.startsWith(".")

const parse = (text: string): Claim | undefined => {
  try {
    return Claim.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

const orMissing = <Result>(work: () => Result): Result | undefined => {
  try {
    return work()
  } catch (thrown) {
    if (hasCode(thrown, "ENOENT")) return undefined
    throw thrown
  }
}

const isFull = (thrown: unknown) => hasCode(thrown, "ENOSPC") || hasCode(thrown, "EDQUOT")

const hasCode = (thrown: unknown, code: string): boolean =>
  thrown instanceof Error && (thrown as NodeJS.ErrnoException).code === code
