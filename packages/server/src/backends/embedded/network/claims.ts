import {
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import { Ipv4Range } from "@berth/protocol/network"
import { z } from "zod"
import { candidates } from "./candidates.ts"
import type { Names } from "./names.ts"
import type { Pool } from "./pool.ts"
import { createTurns } from "./turns.ts"

const Claim = z.strictObject({
  sandbox: SandboxId,
  device: z.string(),
  address: z.ipv4(),
  /** Where the sandbox may go besides the internet. Present once its link is being made. */
  allow: z.array(Ipv4Range).optional(),
})
/** What a sandbox holds of the network. It is on disk before anything else of it exists. */
export type Claim = Readonly<z.infer<typeof Claim>>

/** The claim of a sandbox whose link is made, or is about to be. */
export type Attached = Claim & { readonly allow: readonly Ipv4Range[] }

export interface Claims {
  /** The sandbox's claim; a new one takes an address that no claim has and that is not in `held`. */
  reserve(sandbox: SandboxId, held: ReadonlySet<string>): Promise<Claim>
  attach(claim: Claim, allow: readonly Ipv4Range[]): Promise<Attached>
  /** Whoever holds the device that is named after this sandbox: seldom, another one of nearly the same id. */
  holder(sandbox: SandboxId): Promise<Claim | undefined>
  /** The devices of all claims, without reading them. */
  devices(): Promise<string[]>
  all(): Promise<Claim[]>
  release(sandbox: SandboxId): Promise<void>
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
  // Each change looks at what is taken before it writes.
  const inTurn = createTurns()

  const reserve = async (sandbox: SandboxId, held: ReadonlySet<string>): Promise<Claim> => {
    await mkdir(devices, { recursive: true, mode: 0o700 })
    await mkdir(addresses, { recursive: true, mode: 0o700 })
    const device = names.deviceOf(sandbox)
    const known = await holder(sandbox)
    if (known !== undefined && known.sandbox !== sandbox) {
      throw new BerthError("backend.network_conflict", `${device} is the link of another sandbox`, {
        details: { device, sandbox, holder: known.sandbox },
      })
    }
    if (known !== undefined && (await take(known.address, device))) return known
    for (const address of candidates(sandbox, pool)) {
      if (held.has(address) || (await holderOf(address)) !== undefined) continue
      const claim = { sandbox, device, address }
      await write(claim)
      if (await take(address, device)) return claim
    }
    throw new BerthError("backend.network_exhausted", `every address of ${pool.range} is taken`, {
      details: { pool: pool.range },
    })
  }

  const release = async (sandbox: SandboxId): Promise<void> => {
    const device = names.deviceOf(sandbox)
    const claim = await read(device)
    if (claim !== undefined && (await holderOf(claim.address)) === device) {
      await rm(join(addresses, claim.address), { force: true })
    }
    await rm(draftOf(device), { force: true })
    await rm(join(devices, device), { force: true })
  }

  const holder = (sandbox: SandboxId) => read(names.deviceOf(sandbox))

  const listDevices = async (): Promise<string[]> =>
    ((await orMissing(readdir(devices))) ?? []).filter((name) => !isDraft(name))

  const all = async (): Promise<Claim[]> => {
    const claims: Claim[] = []
    for (const device of await listDevices()) {
      const claim = await read(device)
      if (claim === undefined) await inTurn(() => discard(device))
      else claims.push(claim)
    }
    return claims
  }

  /** Removes what a power loss left of a claim; the links that it stood for are gone by themselves. */
  const discard = async (device: string): Promise<void> => {
    if ((await read(device)) !== undefined) return
    await rm(join(devices, device), { force: true })
    for (const address of (await orMissing(readdir(addresses))) ?? []) await holderOf(address)
  }

  const read = async (device: string): Promise<Claim | undefined> => {
    const text = await orMissing(readFile(join(devices, device), "utf8"))
    return text === undefined ? undefined : parse(text)
  }

  /** The file appears whole or not at all; the draft's name is fixed, so that a crash leaves only one. */
  const write = async (claim: Claim): Promise<void> => {
    const draft = draftOf(claim.device)
    try {
      await writeFile(draft, JSON.stringify(claim), { mode: 0o600 })
      await rename(draft, join(devices, claim.device))
    } catch (cause) {
      await rm(draft, { force: true })
      if (!isFull(cause)) throw cause
      throw new BerthError("backend.disk_full", "no space is left for a sandbox's address", {
        details: { path: draft },
        cause,
      })
    }
  }

  const draftOf = (device: string) => join(devices, `.${device}`)

  /** Whether the address is this device's now. */
  const take = async (address: string, device: string): Promise<boolean> => {
    const holder = await holderOf(address)
    if (holder !== undefined) return holder === device
    try {
      await symlink(device, join(addresses, address))
      return true
    } catch (thrown) {
      if (hasCode(thrown, "EEXIST")) return false
      throw thrown
    }
  }

  /** A link whose device claims another address, or nothing, is what a crash left: it is removed. */
  const holderOf = async (address: string): Promise<string | undefined> => {
    const path = join(addresses, address)
    const device = await orMissing(readlink(path))
    if (device === undefined) return undefined
    if ((await read(device))?.address === address) return device
    await rm(path, { force: true })
    return undefined
  }

  return {
    reserve: (sandbox, held) => inTurn(() => reserve(sandbox, held)),
    attach: (claim, allow) =>
      inTurn(async () => {
        const attached = { ...claim, allow: [...allow] }
        await write(attached)
        return attached
      }),
    release: (sandbox) => inTurn(() => release(sandbox)),
    holder,
    devices: listDevices,
    all,
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

const orMissing = async <Result>(work: Promise<Result>): Promise<Result | undefined> => {
  try {
    return await work
  } catch (thrown) {
    if (hasCode(thrown, "ENOENT")) return undefined
    throw thrown
  }
}

const isFull = (thrown: unknown) => hasCode(thrown, "ENOSPC") || hasCode(thrown, "EDQUOT")

const hasCode = (thrown: unknown, code: string): boolean =>
  thrown instanceof Error && (thrown as NodeJS.ErrnoException).code === code
