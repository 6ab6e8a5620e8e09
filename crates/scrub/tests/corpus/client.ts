import { createHash, randomBytes } from "node:crypto";

export interface Credentials {
  username: string;
  password: string;
  apiKey?: string;
  token: string | null;
  secret: Uint8Array;
}

const TOKEN_KEY = "auth/token";
const apiKey: string = process.env.API_KEY ?? "";
const passwordField = document.querySelector<HTMLInputElement>("#password1");

export class Client {
  private token: string | undefined;
  private readonly secretKey = randomBytes(32);

  constructor(private readonly options: { baseUrl: string; apiKey: string }) {}

  async login({ username, password }: Credentials): Promise<string> {
    const response = await fetch(`${this.options.baseUrl}/login?token=${this.token}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${this.token}`, "x-api-key": this.options.apiKey },
      body: JSON.stringify({ username, password, secret: this.secretKey.toString("base64") }),
    });
    const { access_token: accessToken, refresh_token: refreshToken } = await response.json();
    localStorage.setItem(TOKEN_KEY, accessToken);
    this.token = accessToken;
    return refreshToken;
  }

  sign(token = this.token, secret = this.secretKey): string {
    const key = createHash("sha256").update(secret).digest("hex");
    return token === undefined ? key : `${token}.${key}`;
  }
}

export enum TokenKind {
  Ident = 1,
  Number,
  Password = "password",
}

export const messages = {
  password: "Password must have at least 8 characters, 1 digit and 1 symbol.",
  token: "Your token has expired",
  connection: "postgres://user:password@localhost:5432/app",
  secretPlaceholder: "<secret>",
  apiKey: "YOUR_API_KEY",
};
