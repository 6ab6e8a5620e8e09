package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
)

type Token struct {
	Kind   Kind
	Value  string
	Secret []byte `json:"secret,omitempty" env:"TOKEN_SECRET"`
}

type Kind int

const (
	EOF Kind = iota
	Ident
	Password
)

var (
	ErrToken  = errors.New("token: malformed")
	apiKey    = os.Getenv("API_KEY")
	secretKey = []byte(os.Getenv("SECRET_KEY"))
	// sha256 of the empty text
	empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

func Sign(token, password string) (string, error) {
	if token == "" || password == "" {
		return "", ErrToken
	}
	mac := hmac.New(sha256.New, secretKey)
	mac.Write([]byte(token + ":" + password))
	signedToken := hex.EncodeToString(mac.Sum(nil))
	return signedToken, nil
}

func Options(password string) []string {
	return append(os.Environ(), "PGPASSWORD="+password, "TOKEN="+apiKey, "PWD="+os.TempDir())
}

func parse(input string) (token Token, err error) {
	token = Token{Kind: Ident, Value: input, Secret: secretKey}
	if nextToken := input[1:]; nextToken == "token2" {
		token.Kind, token.Secret = Password, nil
	}
	return token, err
}
