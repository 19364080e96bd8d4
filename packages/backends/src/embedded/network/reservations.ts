import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import { Ipv4Range } from "@berth/protocol/network"
import { z } from "zod"
import { AddressLinks } from "./address-links.ts"
import { candidates } from "./candidates.ts"
import { isFull, orMissing } from "./file-codes.ts"
import type { Names } from "./names.ts"
import type { Pool } from "./pool.ts"

const Reservation = z.strictObject({
  sandbox: SandboxId,
  device: z.string(),
  address: z.ipv4(),
  /** The ranges that the sandbox may reach besides the internet. Present once its veth is being made. */
  allow: z.array(Ipv4Range).readonly().optional(),
})
/** A sandbox's reservation: its device and address. It is on disk before anything else of the sandbox's network exists. */
export type Reservation = Readonly<z.infer<typeof Reservation>>

/** The reservation of a sandbox whose veth is made, or is about to be. */
export type Attached = Reservation & { readonly allow: readonly Ipv4Range[] }

export const isAttached = (reservation: Reservation): reservation is Attached =>
  reservation.allow !== undefined

/**
 * The reservations of all sandboxes, in two directories: `devices/NAME` is the reservation of the sandbox that the device is named
 * after, and `addresses/ADDRESS` is a symbolic link to that name, which only one reservation can make.
 *
 * The device's file is written first and removed last: an address never lacks its owner. All of it is synchronous: a
 * change looks at what is taken before it writes, and nothing comes in between.
 */
export class Reservations {
  readonly #devices: string
  readonly #addresses: AddressLinks
  readonly #names: Names
  readonly #pool: Pool

  constructor(directory: string, names: Names, pool: Pool) {
    this.#devices = join(directory, "devices")
    this.#addresses = new AddressLinks(
      join(directory, "addresses"),
      (device) => this.#read(device)?.address,
    )
    this.#names = names
    this.#pool = pool
  }

  /** Gives the sandbox's reservation. A new reservation takes an address that no reservation has and that is not in `held`. */
  reserve(sandbox: SandboxId, held: ReadonlySet<string>): Reservation {
    mkdirSync(this.#devices, { recursive: true, mode: 0o700 })
    this.#addresses.prepare()
    const device = this.#names.deviceOf(sandbox)
    const known = this.#read(device)
    if (known !== undefined && known.sandbox !== sandbox) {
      throw new BerthError(
        "backend.network_conflict",
        `${device} is the device of another sandbox`,
        {
          details: { device, sandbox, holder: known.sandbox },
        },
      )
    }
    if (known !== undefined && this.#addresses.take(known.address, device)) return known
    for (const address of candidates(sandbox, this.#pool)) {
      if (held.has(address) || this.#addresses.holderOf(address) !== undefined) continue
      const reservation = { sandbox, device, address }
      this.#write(reservation)
      if (this.#addresses.take(address, device)) return reservation
    }
    const { range } = this.#pool
    throw new BerthError("backend.network_exhausted", `every address of ${range} is taken`, {
      details: { pool: range },
    })
  }

  attach(reservation: Reservation, allow: readonly Ipv4Range[]): Attached {
    const attached = { ...reservation, allow }
    this.#write(attached)
    return attached
  }

  /**
   * The reservation of the device that is named after this sandbox. Seldom, it is that of another sandbox with nearly the
   * same id.
   */
  holder(sandbox: SandboxId): Reservation | undefined {
    return this.#read(this.#names.deviceOf(sandbox))
  }

  /** The devices of all reservations, without reading them. */
  devices(): string[] {
    return (orMissing(() => readdirSync(this.#devices)) ?? []).filter((name) => !isDraft(name))
  }

  all(): Reservation[] {
    return this.devices().flatMap((device) => {
      const reservation = this.#read(device)
      if (reservation === undefined) this.#discard(device)
      return reservation ?? []
    })
  }

  release(sandbox: SandboxId): void {
    const device = this.#names.deviceOf(sandbox)
    const reservation = this.#read(device)
    if (reservation !== undefined) this.#addresses.release(reservation.address, device)
    rmSync(this.#draftOf(device), { force: true })
    rmSync(this.#fileOf(device), { force: true })
  }

  /** Removes a reservation that a power loss damaged; the veth of its sandbox is gone by itself. */
  #discard(device: string): void {
    rmSync(this.#fileOf(device), { force: true })
    this.#addresses.sweep()
  }

  #read(device: string): Reservation | undefined {
    const text = orMissing(() => readFileSync(this.#fileOf(device), "utf8"))
    return text === undefined ? undefined : parse(text)
  }

  /**
   * Writes a reservation: the file appears whole or not at all. The draft's name is fixed, so that a crash leaves only one.
   */
  #write(reservation: Reservation): void {
    const draft = this.#draftOf(reservation.device)
    try {
      writeFileSync(draft, JSON.stringify(reservation), { mode: 0o600 })
      renameSync(draft, this.#fileOf(reservation.device))
    } catch (cause) {
      rmSync(draft, { force: true })
      if (!isFull(cause)) throw cause
      throw new BerthError("backend.disk_full", "no space is left for a sandbox's address", {
        details: { path: draft },
        cause,
      })
    }
  }

  #fileOf(device: string): string {
    return join(this.#devices, device)
  }

  #draftOf(device: string): string {
    return this.#fileOf(`.${device}`)
  }
}

const isDraft = (name: string) => name.startsWith(".")

const parse = (text: string): Reservation | undefined => {
  try {
    return Reservation.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}
