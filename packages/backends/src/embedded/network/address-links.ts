import { mkdirSync, readdirSync, readlinkSync, rmSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { hasCode, orMissing } from "./file-codes.ts"

/**
 * The addresses that devices hold: a directory with a symbolic link for each, named after the
 * address, to the name of the device.
 * Only one device can make a link. A link counts while its device has the address reserved.
 */
export class AddressLinks {
  readonly #directory: string
  readonly #addressOf: (device: string) => string | undefined

  constructor(directory: string, addressOf: (device: string) => string | undefined) {
    this.#directory = directory
    this.#addressOf = addressOf
  }

  prepare(): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
  }

  /** Takes an address for a device. Returns whether the device has it now. */
  take(address: string, device: string): boolean {
    const holder = this.holderOf(address)
    if (holder !== undefined) return holder === device
    try {
      symlinkSync(device, this.#linkOf(address))
      return true
    } catch (thrown) {
      if (hasCode(thrown, "EEXIST")) return false
      throw thrown
    }
  }

  /**
   * The device that holds an address. A link whose device has reserved another address, or none, was left by a crash, and
   * is removed.
   */
  holderOf(address: string): string | undefined {
    const link = this.#linkOf(address)
    const device = orMissing(() => readlinkSync(link))
    if (device === undefined) return undefined
    if (this.#addressOf(device) === address) return device
    rmSync(link, { force: true })
    return undefined
  }

  /** Releases an address that the device holds; another device's stays. */
  release(address: string, device: string): void {
    if (this.holderOf(address) === device) rmSync(this.#linkOf(address), { force: true })
  }

  /** Removes all links that do not count. */
  sweep(): void {
    for (const address of orMissing(() => readdirSync(this.#directory)) ?? [])
      this.holderOf(address)
  }

  #linkOf(address: string): string {
    return join(this.#directory, address)
  }
}
